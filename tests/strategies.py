"""Random legal kernels, and arguments for them: what the differential tests run everywhere.

Legal means: no two blocks and no two points of a `parallel` write one element, nothing is read that
nobody wrote, no index is negative, and no index leaves a shared, fragment or local buffer.

Results that every device must agree on to the bit are *exact*: integers, and floats through ops
that are rounded once.  What goes through a library function or a sum of floats is not, and from
there it only flows into outputs, so that an error is not magnified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from tests.draw_expressions import (
    FLOATS,
    INDEX,
    INTEGERS,
    Choices,
    HypothesisChoices,
    RandomChoices,
    Tile,
    special_numbers,
)
from tests.draw_updates import Updates
from tileprof import ir

__all__ = ["Case", "cases", "kernels", "random_case"]

SHOWN = 4
"""Tiles that are written out at the end of a block, whatever their shape."""


@dataclass(frozen=True, repr=False)
class Case:
    """A kernel with the extents of its symbols; `exact` says it of each parameter."""

    kernel: ir.Kernel
    extents: tuple[int, ...]
    exact: tuple[bool, ...]
    seed: int
    special: bool = False
    """Whether some elements of the arguments are special."""

    def __repr__(self) -> str:
        return f"extents {self.extents}, seed {self.seed}:\n{ir.print_kernel(self.kernel)}"

    def arguments(self) -> list[Any]:
        """Fresh arguments, the same at each call; outputs hold what a kernel must overwrite."""
        rng = np.random.default_rng(self.seed)
        named = dict(zip(self.kernel.symbols, self.extents, strict=True))
        made = [_argument(p, named, rng) for p in self.kernel.params]
        if self.special:
            for param, array in zip(self.kernel.params, made, strict=True):
                if isinstance(array, np.ndarray) and param.role == "in":
                    self._mix(array, param, rng)
        return made

    def _mix(self, array: np.ndarray[Any, Any], param: ir.Param, rng: np.random.Generator) -> None:
        """Make an eighth to a half of the elements special."""
        assert isinstance(param.type, ir.BufferType)
        numbers = special_numbers(param.type.dtype)
        if all(self.exact) and param.type.dtype.is_float:
            # In another order of summands they may or may not become infinite.
            numbers += [float(ml_dtypes.finfo(array.dtype).max)]  # type: ignore[no-untyped-call]
        with np.errstate(all="ignore"):
            pool = np.array(numbers, None if param.type.dtype.is_float else array.dtype)
            chosen = rng.choice(pool, array.shape).astype(array.dtype)
        where = rng.random(array.shape) < rng.choice([1 / 8, 1 / 2])
        array[where] = chosen[where]


def _argument(param: ir.Param, named: dict[str, int], rng: np.random.Generator) -> Any:
    dtype = param.type.dtype if isinstance(param.type, ir.BufferType) else param.type
    shape: tuple[int, ...] = ()
    if isinstance(param.type, ir.BufferType):
        shape = tuple(named[d] if isinstance(d, str) else d for d in param.type.shape)
    low = 0 if dtype.kind == "uint" else -8
    whole = rng.integers(low, 9, shape)
    # Quarters up to 2 are held exactly by every float type.
    made = np.asarray(whole / 4 if dtype.is_float else whole).astype(dtype.to_numpy())
    if param.role == "out":
        made[...] = dtype.to_numpy().type(77)
    return made if isinstance(param.type, ir.BufferType) else made.item()


@dataclass(frozen=True)
class _Signature:
    """The tensors of a kernel: each block makes one tile of `tile` elements of the outputs."""

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    symbols: dict[int, str]
    """Dimensions whose extent is known at launch only."""
    inputs: tuple[ir.DType, ...]
    outputs: tuple[ir.DType, ...]

    def dims(self) -> tuple[ir.Dim, ...]:
        return tuple(self.symbols.get(at, size) for at, size in enumerate(self.shape))

    def params(self) -> tuple[ir.Param, ...]:
        def tensor(dtype: ir.DType) -> ir.BufferType:
            return ir.BufferType(self.dims(), dtype, "global")

        taken = [ir.Param(f"x{i}", tensor(d), "in", i) for i, d in enumerate(self.inputs)]
        made = [ir.Param(f"y{i}", tensor(d), "out") for i, d in enumerate(self.outputs)]
        counters = ir.Param("counters", ir.BufferType((12,), ir.dtype("int32"), "global"))
        return (*taken, *made, counters, ir.Param("n", ir.dtype("int32")))


def _signature(choices: Choices, special: bool) -> _Signature:
    rank = choices.number(1, 3)
    least = 0 if special and choices.number(0, 3) == 0 else 1
    shape = tuple(choices.number(least, 9) for _ in range(rank))
    tile = tuple(choices.number(1, 5) for _ in range(rank))
    symbols = {at: "pqr"[at] for at in range(rank) if choices.number(0, 1)}
    inputs = [choices.pick([*FLOATS, *INTEGERS]) for _ in range(choices.number(1, 2))]
    made = [choices.pick([*FLOATS[:4], *INTEGERS[:1]]) for _ in range(choices.number(1, 2))]
    return _Signature(shape, tile, symbols, tuple(inputs), tuple(made))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A legal kernel with arguments, by Hypothesis."""
    return _case(HypothesisChoices(draw))


def random_case(seed: str) -> Case:
    """The legal kernel with arguments that belongs to a seed, special numbers among them."""
    return _case(RandomChoices(seed), special=True)


def _case(choices: Choices, special: bool = False) -> Case:
    special = special and choices.number(0, 3) > 0
    signature = _signature(choices, special)
    params, symbols = list(signature.params()), tuple(signature.symbols.values())
    args = [ir.Value(p.type, p.name) for p in params]
    named = [ir.Value(INDEX, s) for s in symbols]
    body = ir.Block()
    builder = ir.Builder(body)
    taken, (*_, counters, given) = len(signature.inputs), args
    sizes = [choices.number(1, 6) for _ in range(2)]
    if choices.number(0, 3) == 0:
        sizes = [choices.pick([1, 8, 16, 17, 32]) for _ in range(2)]
    threads = choices.pick([32, 32, 64, 96, 128, 256])
    drawing = Updates(choices, builder, args[:taken], counters, given, sizes, special=special)
    extents = dict(zip(signature.symbols, named, strict=True))
    grid = [
        _blocks(drawing, extents.get(at) or drawing.index(size), signature.tile[at])
        for at, size in enumerate(signature.shape)
    ]
    launch = ir.Block([ir.Value(INDEX, f"b{at}") for at in range(len(grid))])
    with builder.inside(launch):
        drawing.scalars += launch.args
        tile = map(drawing.index, signature.tile)
        drawing.offsets = [drawing.binary("mul", b, t) for b, t in zip(launch.args, tile)]
        drawing.statements(5)
        made = [_write(drawing, out, signature) for out in args[taken:-2]]
        exact = [*[True] * taken, *made, True, True]
        for shown in drawing.tiles[-SHOWN:]:
            exact.append(shown.exact)
            params.append(_show(drawing, shown, signature, launch.args, args))
    builder.emit(ir.Launch(grid, (threads,), launch))
    body.args += [*args, *named]
    kernel = ir.Kernel("k", tuple(params), symbols, body)
    known = tuple(signature.shape[at] for at in signature.symbols)
    return Case(kernel, known, tuple(exact), choices.number(0, 99), special)


def _show(
    drawing: Updates,
    tile: Tile,
    signature: _Signature,
    block: list[ir.Value],
    args: list[ir.Value],
) -> ir.Param:
    """An output of its own for a tile, with a place for each block; adds its value to `args`."""
    counts = [-(-s // t) for s, t in zip(signature.shape, signature.tile, strict=True)]
    dtype = ir.BufferType((*counts, *tile.shape), tile.value.dtype, "global")
    value = ir.Value(dtype, f"shown{len(args)}")
    args.append(value)
    starts = [*block, *(drawing.index(0) for _ in tile.shape)]
    view = ir.View(value, starts, (*(1 for _ in counts), *tile.shape))
    drawing.builder.emit(ir.Copy(tile.value, drawing.builder.emit(view).result))
    return ir.Param(value.name, dtype, "out")


def _blocks(drawing: Updates, extent: ir.Value, tile: int) -> ir.Value:
    up = drawing.binary("add", extent, drawing.index(tile - 1))
    return drawing.binary("floordiv", up, drawing.index(tile))


def _write(drawing: Updates, out: ir.Value, signature: _Signature) -> bool:
    """Write the block's tile of an output, from a tile or element by element; whether exactly."""
    fit = [
        t
        for t in drawing.tiles
        if t.shape == signature.tile
        and (out.dtype.is_float or not t.value.dtype.is_float)
        # A narrow float would turn a small difference into a large one.
        and (t.exact or out.dtype.bits >= 32)
    ]
    if fit and drawing.number(0, 2):
        tile = drawing.pick(fit[::-1])
        view = ir.View(out, drawing.offsets, signature.tile)
        target = drawing.builder.emit(view).result
        drawing.builder.emit(ir.Copy(tile.value, target))
        return tile.exact  # type: ignore[no-any-return]

    def point(at: list[ir.Value]) -> None:
        made = drawing.expression(out.dtype, at, signature.tile)
        pairs = zip(drawing.offsets, at, strict=True)
        drawing.builder.emit(ir.Store(made, out, [drawing.binary("add", o, i) for o, i in pairs]))

    extents = [drawing.index(s) for s in signature.tile]
    drawing.builder.emit(ir.Parallel(extents, drawing.inside(len(extents), point)))
    return True


def kernels() -> st.SearchStrategy[ir.Kernel]:
    """Legal kernels without arguments."""
    return cases().map(lambda case: case.kernel)
