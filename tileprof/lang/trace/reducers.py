"""Reducers of a trace: accumulators to which the points of a `T.Parallel` add what they have.

Each update of a reducer in a loop becomes a tile with one element for each point, and a reduction
of that tile after the loop:

    for i, j in T.Parallel(M, N):            for i, j in T.Parallel(M, N):
        acc[i] += A[i, j] * x[j]       ⇒         part[i, j] = A[i, j] * x[j]
                                             reduce_sum part → acc, dim 1, combined

So a reducer is known to the tracing alone, and combined as the compiler combines reductions.

In the same way, or by atomics, points update an element of a fragment that they share, as in
`x[i // 8] = T.max(x[i // 8], y)`; in shared memory this is an error, as it is a race in TileLang.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from types import CodeType
from typing import Any, NoReturn

from tileprof import ir
from tileprof.errors import DTypeError, KernelError, ShapeError
from tileprof.ir.scalar import BinaryKind
from tileprof.ir.tile import ReduceKind
from tileprof.ir.types import index as index_type
from tileprof.lang.context import Loop
from tileprof.lang.regions import Region
from tileprof.lang.static import range_of
from tileprof.lang.values import Buffer, BufferRegion, Expr, Var

from .buffers import PromotionKey
from .tiles import Tiles
from .updates import Update, constant_of, meeting, same, uncast, updates_in

KINDS: dict[ReduceKind, BinaryKind] = {
    "sum": "add", "max": "max", "min": "min", "bitand": "and", "bitor": "or", "bitxor": "xor",
}  # fmt: skip
"""Scalar operation that combines two values, by the name of the reduction."""


_ATOMICS = {"add": "atomic_add", "max": "atomic_max", "min": "atomic_min"}
_REDUCTIONS: dict[str, ReduceKind] = {scalar: kind for kind, scalar in KINDS.items()}

_MOST_CHOICES = 16
"""Elements of a reducer between which a point may choose by an index that it computes: the tile of
contributions has as many times the elements of the loop."""


@dataclass(eq=False)
class _Part:
    """A tile with the contributions of one update, or of several under conditions."""

    kind: ReduceKind
    reducer: Buffer
    indices: list[ir.Value]
    """Those of the update in the reducer."""
    alloc: ir.Alloc
    at: list[ir.Value]
    """The indices of a point's element: those of the reducer first."""
    chosen: list[int]
    """Dimensions of the reducer whose index a point computes: the tile has all of them for it."""
    starts: bool = False
    """Whether points combine with what the tile holds, which is then set before the loop."""


class Reducers(Tiles):
    """Reducers, and what the loop over points that is open contributes to them."""

    def __init__(self, root: CodeType | None, widened: dict[PromotionKey, ir.DType]) -> None:
        super().__init__(root, widened)
        self.reducers: dict[ir.Value, ReduceKind] = {}
        """The reduction of each reducer."""
        self._open_points: tuple[Region, Loop] | None = None
        self._contributions: list[_Part] = []

    def alloc_reducer(self, shape: Sequence[Any], dtype: ir.DType, kind: ReduceKind) -> Buffer:
        """Return an accumulator."""
        if kind.startswith("bit") and dtype.is_float:
            self.fail(DTypeError, f"a reducer of {dtype} for `{kind}`", "It is for integers.")
        made = self.alloc("fragment", shape, dtype)
        self.reducers[made.value] = kind
        return made

    def reducer(self, held: Any, what: str) -> tuple[Buffer, ReduceKind]:
        """Return a reducer that an operation names, and its reduction."""
        kind = self.reducers.get(held.value) if isinstance(held, Buffer) else None
        if kind is None:
            self.fail(
                KernelError,
                f"{what} takes a reducer, not {held!r:.60}",
                "Make one by `T.alloc_reducer(shape, dtype, op)`.",
            )
        return held, kind

    def reducer_init(self, held: Any, value: Any) -> None:
        """Set all elements, to what changes nothing where `value` is None."""
        buffer, kind = self.reducer(held, "`T.reducer_init`")
        self.fill(buffer, first_of(kind, buffer.type.dtype) if value is None else value)

    def reducer_update(self, place: Any, value: Any) -> None:
        """Combine an element with a value."""
        found = self.reference(place) if isinstance(place, Expr) else place
        if isinstance(found, BufferRegion) and None not in found.extents:
            found = Var(found.buffer, found.offsets)
        buffer, kind = self.reducer(getattr(found, "buffer", found), "`T.reducer_update`")
        if not isinstance(found, Var):
            self.fail(
                KernelError, "`T.reducer_update` of a whole reducer", "Name an element: `acc[i]`."
            )
        indices = [self.as_scalar(i) for i in found.indices]
        if self.collects(buffer):
            self._collect(buffer, [self.index(i) for i in indices], value)
        else:
            buffer[tuple(indices)] = self.binary(KINDS[kind], buffer[tuple(indices)], value)

    def finalize_reducer(self, held: Any, target: Any) -> None:
        """Copy the elements to `target`; without one they are read where they are."""
        buffer, _ = self.reducer(held, "`T.finalize_reducer`")
        if target is not None:
            self.copy(buffer, target, ())

    # -- updates

    def collects(self, buffer: Buffer) -> bool:
        """Return whether a store to a buffer is a contribution of a point."""
        return buffer.value in self.reducers and self.inner("parallel") is not None

    def store(self, buffer: Buffer, key: Any, value: Any) -> None:
        """`buffer[key] = value`; for a reducer in a loop over points, the value must update it."""
        if not self.collects(buffer):
            super().store(buffer, key, value)
            return
        parts = self._parts_of(buffer, key)
        indices = self._indices(buffer, parts)
        self._collect(buffer, indices, self._contribution(buffer, indices, value))

    def _parts_of(self, buffer: Buffer, key: Any) -> list[Any]:
        parts = self._parts(buffer, key)
        if any(isinstance(p, slice) for p in parts):
            self.fail(
                KernelError,
                f"a part of the reducer `{buffer.name}` is set in `T.Parallel`",
                f"Update an element: `{buffer.name}[i] += value`.",
            )
        return parts

    def _contribution(self, buffer: Buffer, indices: list[ir.Value], value: Any) -> Expr:
        """Return what `value` combines the element with: the `x` of `acc[i] + x`."""
        kind = KINDS[self.reducers[buffer.value]]
        *outer, op = uncast(value.value) if isinstance(value, Expr) else (None,)
        if isinstance(op, ir.Binary) and op.kind == kind:
            for old, other in ((op.left, op.right), (op.right, op.left)):
                *inner, load = uncast(old)
                if (
                    isinstance(load, ir.Load)
                    and load.buffer is buffer.value
                    and all(map(same, load.indices, indices))
                ):
                    self._drop([*outer, op, *inner, load])
                    return Expr(other, self.regions[-1])
        self.fail(
            KernelError,
            f"`{buffer.name}` is a reducer, and this does not update its element",
            f"In `T.Parallel`, write `{buffer.name}[i] {_UPDATES[kind]}` or "
            f"`T.reducer_update({buffer.name}[i], x)`.",
        )

    def _drop(self, ops: Sequence[ir.OpBase]) -> None:
        """Take back ops that only named a place, and which nothing else uses."""
        for op in ops:
            region = next((r for r in reversed(self.regions) if op in r.cursor.ops), None)
            users = [o for r in self.regions for o in ir.walk(r.cursor) if o is not op]
            if region is not None and not any(op.result in o.operand_values() for o in users):
                region.cursor.ops.remove(op)

    def _collect(self, buffer: Buffer, indices: list[ir.Value], value: Any) -> None:
        """Note what a point contributes to an element."""
        assert self._open_points is not None
        region, loop = self._open_points
        kind, dtype = KINDS[self.reducers[buffer.value]], buffer.type.dtype
        held = self.cast(value, dtype)
        if all(v in indices for v in region.block.args):
            # Each point has an element of its own.
            before = self.result(ir.Load(buffer.value, indices))
            after = self.result(ir.Binary(kind, before.value, held.value))
            self.emit(ir.Store(after.value, buffer.value, indices))
            return
        direct = self.regions[-1] is region
        part = (
            None
            if direct
            else next((p for p in self._contributions if _fits(p, buffer, indices)), None)
        )
        if part is None:
            part = self._part(buffer, indices, region, loop)
        part.starts |= not direct
        for dim in part.chosen:
            self._check(buffer, dim, Expr(indices[dim], self.regions[-1]))
        choices = [range(part.alloc.shape[dim]) for dim in part.chosen]
        for numbers in product(*choices):
            at, mine = list(part.at), held
            for dim, number in zip(part.chosen, numbers):
                at[dim] = self.constant(number, index_type).value
                here = self.compare("eq", Expr(indices[dim], self.regions[-1]), number)
                nothing = neutral(self.reducers[buffer.value], dtype)
                mine = self.select(here, mine, self.cast(nothing, dtype))
            if not direct:
                before = self.result(ir.Load(part.alloc.result, at))
                mine = self.result(ir.Binary(kind, before.value, mine.value))
            self.emit(ir.Store(mine.value, part.alloc.result, at))

    def _check(self, buffer: Buffer, dim: int, index: Expr) -> None:
        """Stop the launch where an index is outside; a check that always holds is taken out."""
        extent = buffer.type.static_shape[dim]
        message = f"index {dim} of the reducer `{buffer.name}` is outside of 0 to {extent - 1}"
        for kind, bound in (("ge", 0), ("lt", extent)):
            self.emit(ir.Assert(message, self.compare(kind, index, bound).value))

    def _part(self, buffer: Buffer, indices: list[ir.Value], region: Region, loop: Loop) -> _Part:
        variables = region.block.args
        extents = self.sizes(loop.stop)
        shape, chosen = list(buffer.type.static_shape), []
        for dim, index in enumerate(indices):
            extent = extents[variables.index(index)] if index in variables else 1
            if extent != shape[dim] or indices.index(index) < dim:
                chosen.append(dim)
        if (choices := math.prod(shape[dim] for dim in chosen)) > _MOST_CHOICES:
            self.fail(
                ShapeError,
                f"index {chosen[0]} of the reducer `{buffer.name}` does not go over its "
                f"{shape[chosen[0]]} elements",
                "In `T.Parallel`, each index of a reducer is a variable of the loop, over the "
                "whole dimension; in a dimension of one element it is 0.  An index that a point "
                f"computes chooses between {_MOST_CHOICES} elements at most, and here between "
                f"{choices}: use `T.atomic_add` on shared memory.",
            )
        at = list(indices)
        rest = [v for v in variables if v not in indices or indices.index(v) in chosen]
        shape += [extents[variables.index(v)] for v in rest]
        alloc = ir.Alloc(
            "fragment", tuple(shape), buffer.type.dtype, hint=f"{buffer.name}_part",
            span=self.location(),
        )  # fmt: skip
        part = _Part(self.reducers[buffer.value], buffer, indices, alloc, [*at, *rest], chosen)
        self._contributions.append(part)
        return part

    # -- elements of other buffers that points share

    def join_updates(self, bounds: Sequence[ir.Value], body: ir.Block) -> None:
        """Combine what points of a loop, which is written next, contribute to one element."""
        extents = [constant_of(n) for n in bounds]
        for update in updates_in(body):
            met = meeting(update, body, extents)
            buffer = update.store.buffer
            if met == "yes" and buffer.buffer.space == "shared":
                self._refuse_update(update)
            if met == "no" or buffer.buffer.space == "shared":
                continue
            blocks = [body, *(inner for _, inner in update.around)]
            at = blocks[-1].ops.index(update.store)
            blocks[-1].ops[at : at + 1] = self._contribute(update, body, extents)
            for block in blocks:
                block.ops[:] = [op for op in block.ops if op not in update.chain]

    def _contribute(
        self, update: Update, body: ir.Block, extents: Sequence[int | None]
    ) -> list[ir.OpBase]:
        """Return what a point does in place of an update: it stores its own contribution, which
        is reduced after the loop, or combines it atomically."""
        store, span, value = update.store, update.store.span, update.other
        made: list[ir.OpBase] = []
        if update.is_difference:
            made.append(ir.Unary("neg", value, span=span))
            value = made[-1].result
        if value.dtype != store.value.dtype:
            made.append(ir.Cast(value, store.value.dtype, span=span))
            value = made[-1].result
        part = self._part_of_update(update, body, extents)
        if part is None:
            return [*made, ir.Atomic(update.kind, value, store.buffer, store.indices, span=span)]
        if part.starts:
            before = ir.Load(part.alloc.result, part.at, span=span)
            made += [before, ir.Binary(update.kind, before.result, value, span=span)]
            value = made[-1].result
        return [*made, ir.Store(value, part.alloc.result, part.at, span=span)]

    def _part_of_update(
        self, update: Update, body: ir.Block, extents: Sequence[int | None]
    ) -> _Part | None:
        """Return a new tile with an element for each point, of which a dimension of the fragment
        is a whole axis of the loop, or has one element; None for other indices."""
        indices, target = update.store.indices, update.store.buffer
        of = dict(zip(body.args, extents))
        axes = [index for index in indices if index in of]
        rest = [arg for arg in body.args if arg not in axes]
        shape = tuple(of.get(index, 1) for index in indices)
        whole = shape == target.buffer.shape and len(set(axes)) == len(axes)
        numbers = [n for n in (*shape, *(of[arg] for arg in rest)) if n is not None]
        if not whole or len(numbers) < len(shape) + len(rest):
            return None
        buffer = self.by_value[target]
        alloc = ir.Alloc(
            "fragment", tuple(numbers), target.dtype, hint=f"{buffer.name}_part",
            span=update.store.span,
        )  # fmt: skip
        leaves = any(isinstance(op, ir.Break | ir.Continue) for op in ir.walk(body))
        starts = leaves or bool(update.around)
        part = _Part(
            _REDUCTIONS[update.kind], buffer, indices, alloc, [*indices, *rest], [], starts
        )
        self._open_part(part)
        self._contributions.append(part)
        return part

    def _open_part(self, part: _Part) -> None:
        """Write the tile of a part, and what it holds where no point contributes."""
        self.emit(part.alloc, part.alloc.span)
        if part.starts:
            start = self.cast(neutral(part.kind, part.alloc.dtype), part.alloc.dtype)
            self.emit(ir.Fill(part.alloc.result, start.value), part.alloc.span)

    def _refuse_update(self, update: Update) -> NoReturn:
        name = update.store.buffer.name
        takes = _ATOMICS.get(update.kind)
        self.fail(
            KernelError,
            f"points of one `T.Parallel` update the same element of `{name}`",
            "They run at once, and updates of shared memory are lost: "
            + (f"use `T.{takes}({name}[…], y)`, or " if takes else "")
            + "make it a fragment or a reducer, whose updates are combined.",
            at=update.store.span,
        )

    def begin_points(self, region: Region, loop: Loop) -> None:
        """Note the loop over points whose body begins."""
        self._open_points, self._contributions = (region, loop), []

    def before_points(self, region: Region) -> None:
        """Write what has to stand before the loop over points whose body has ended."""
        leaves = any(isinstance(o, ir.Break | ir.Continue) for o in ir.walk(region.block))
        for part in self._contributions:
            self._refuse_reads(part, region)
            part.starts |= leaves
            self._open_part(part)

    def after_points(self) -> None:
        """Reduce the contributions of the loop over points that was written."""
        parts, self._contributions, self._open_points = self._contributions, [], None
        for part in parts:
            kind, held, span = part.kind, part.alloc, part.alloc.span
            rank = len(part.indices)
            while len(held.shape) > rank + 1:
                inner = ir.Alloc("fragment", held.shape[:-1], held.dtype, hint="part", span=span)
                self.emit(inner, span)
                last = len(held.shape) - 1
                self.emit(ir.Reduce(kind, held.result, inner.result, last, True), span)
                held = inner
            self.emit(ir.Reduce(kind, held.result, part.reducer.value, rank, False), span)

    def _refuse_reads(self, part: _Part, region: Region) -> None:
        for op in ir.walk(region.block):
            if isinstance(op, ir.Load) and op.buffer is part.reducer.value:
                self.fail(
                    KernelError,
                    f"the reducer `{part.reducer.name}` is read in the loop that updates it",
                    "Its points run at once: read it after the loop.",
                    at=op.span,
                )


_UPDATES = {
    "add": "+= x", "max": "= T.max(acc[i], x)", "min": "= T.min(acc[i], x)", "and": "&= x",
    "or": "|= x", "xor": "^= x",
}  # fmt: skip


def _fits(part: _Part, buffer: Buffer, indices: list[ir.Value]) -> bool:
    """Return whether another update of the same elements goes into a tile."""
    alike = len(part.indices) == len(indices) and all(map(same, part.indices, indices))
    return part.reducer is buffer and part.starts and alike


def neutral(kind: str, dtype: ir.DType) -> float | int | bool:
    """Return what a reduction combines every value with to that value."""
    if kind in ("max", "min") and dtype.is_float:
        # A NaN loses against every number, and against a NaN.
        return float("nan")
    return first_of(kind, dtype)


def first_of(kind: str, dtype: ir.DType) -> float | int | bool:
    """Return the result of a reduction of no elements."""
    match kind:
        case "max":
            return -float("inf") if dtype.is_float else range_of(dtype)[0]
        case "min":
            return float("inf") if dtype.is_float else range_of(dtype)[1]
        case "bitand":
            return -1 if dtype.kind == "int" else range_of(dtype)[1]
        case _:
            return 0
