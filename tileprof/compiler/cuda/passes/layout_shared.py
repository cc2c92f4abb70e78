"""Layouts of shared buffers: swizzles where instructions want them, else by counted conflicts.

matrix products, TMA     the widest swizzle that the instruction and the rows allow
seen under another shape rows: elements have to lie where the other shape expects them
everything else          rows, padded rows or a swizzle, whichever takes the fewest wavefronts
                         over all accesses of the kernel
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.compiler.cuda.layouts import matrix
from tileprof.compiler.cuda.layouts.cost import Accesses, wavefronts
from tileprof.compiler.cuda.layouts.registers import Digit, RegisterLayout
from tileprof.compiler.cuda.layouts.shared import SharedLayout, Swizzle, parse_shared
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.instrument.stages import buffer_name

from .expand import MATRIX
from .layout_cost import lane_offsets, requests
from .layout_graph import Access, Graph, Loop
from .layout_index import evaluate
from .layout_solve import Solution
from .walking import base

__all__ = ["shared_layouts"]

Lanes = npt.NDArray[np.int64]
SWIZZLES: tuple[Swizzle, ...] = (128, 64, 32)
CHUNK = 16


@dataclass(slots=True)
class _Pattern:
    """Requests of one warp: coordinates int64[32, rank], bytes a lane, and how many there are."""

    lanes: Lanes
    width: int
    count: int


@dataclass
class _Uses:
    """What is done with one buffer."""

    alloc: ir.Alloc
    wanted: list[str] = field(default_factory=list)
    """Layouts that matrix products ask for."""
    fixed: bool = False
    """Whether one of them cannot do without."""
    bulk: bool = False
    """Whether TMA reads or writes it."""
    chunked: bool = False
    """Whether 16 bytes are moved as one, wherever they lie."""
    reshaped: bool = False
    patterns: list[_Pattern] = field(default_factory=list)
    wish: str = ""


def shared_layouts(graph: Graph, solution: Solution, lowering: Lowering) -> dict[ir.Value, str]:
    """The layout text of each shared buffer of a launch."""
    uses = {alloc.result: _Uses(alloc) for alloc in graph.shared}
    if not uses:
        return {}
    for op, weight in graph.ops:
        _tile_op(op, weight, uses, solution)
    for loop in graph.loops.values():
        for access in loop.accesses:
            held = uses.get(base(access.buffer))
            if held is not None and access.is_shared:
                layout = solution.known[loop.op]
                held.patterns.append(_pattern(access, loop, layout))
                held.chunked |= held.patterns[-1].width == CHUNK
    return {value: str(_chosen(each, lowering)) for value, each in uses.items()}


def _tile_op(op: ir.OpBase, weight: int, uses: dict[ir.Value, _Uses], solution: Solution) -> None:
    match op:
        case ir.Gemm(a=a, b=b):
            for which, value in (("a", a), ("b", b)):
                held = uses.get(base(value))
                if held is not None:
                    text = matrix.shared_layout(op, "a" if which == "a" else "b")
                    held.wanted.append(text)
                    held.fixed |= op.lowering.startswith("wgmma")
        case ir.Copy(source=source, target=target, lowering=text) if text:
            for value, other in ((source, target), (target, source)):
                held = uses.get(base(value))
                if held is not None:
                    held.bulk |= text == "tma"
                    held.chunked |= text.startswith("cp.async")
                    if text == MATRIX:
                        held.patterns.append(_matrix_pattern(value, solution.known[other], weight))
                        held.chunked = True
        case ir.Reinterpret(base=value):
            if (held := uses.get(base(value))) is not None:
                held.reshaped = True
        case ir.Annotate(name="annotate_layout", target=value, hints=hints) if value is not None:
            if (held := uses.get(base(value))) is not None:
                held.wish = str(dict(hints).get("layout", ""))
        case _:
            pass


# -- what is accessed together


def _pattern(access: Access, loop: Loop, layout: RegisterLayout) -> _Pattern:
    made = requests(access, loop, layout)
    at = _coordinates(access, loop, layout)
    return _Pattern(at, made.width, made.count * loop.weight)


def _coordinates(access: Access, loop: Loop, layout: RegisterLayout) -> Lanes:
    """Where the lanes of the first warp begin."""
    columns: list[list[int] | Lanes] = []
    table: Lanes | None = None
    for index, form in zip(access.op.indices, access.forms, strict=True):
        if form.is_linear:
            steps = [
                sum(f * d.step[loop.variables[v]] for v, f in form.terms.items())
                for d in layout.lanes
            ]
            columns.append([o + form.constant for o in lane_offsets(steps)])
            continue
        if table is None:
            table = layout.table()[:32, 0, :]
        at = {v: table[:, d] for v, d in loop.variables.items()}
        columns.append(evaluate(index, at, (32,)))
    return np.array(columns, np.int64).T.reshape(32, len(columns))


_FRAGMENT_LANES = tuple(Digit(2, step) for step in ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)))
"""The lanes of an accumulator, whose 8×8 matrices move by rows of 16 bytes."""


def _matrix_pattern(value: ir.Value, layout: RegisterLayout, weight: int) -> _Pattern:
    """A copy between a fragment and a whole shared tile."""
    elements = CHUNK // value.dtype.bytes
    if layout.lanes == _FRAGMENT_LANES:
        lane = np.arange(32)
        at = np.stack([lane % 16, lane // 16 * elements], axis=1)
        return _Pattern(at, CHUNK, layout.registers_per_thread // elements * weight)
    width = min(layout.vector(), elements)
    count = layout.registers_per_thread // width * weight
    return _Pattern(layout.table()[:32, 0, :], width * value.dtype.bytes, count)


# -- the choice


def _chosen(uses: _Uses, lowering: Lowering) -> SharedLayout:
    alloc = uses.alloc
    name = f"buffer {buffer_name(alloc.result)}"
    rows = SharedLayout(alloc.shape, alloc.dtype)
    allowed = lowering.controls.swizzle
    if uses.reshaped:
        if uses.wanted or uses.wish:
            why = "it is also used under another shape"
            lowering.remarks.add(name, alloc.span, "rows", ("a swizzle", why), severity="missed")
        return rows
    if uses.wanted and (allowed or uses.fixed):
        made = min((parse_shared(t, alloc.shape, alloc.dtype) for t in uses.wanted),
                   key=lambda m: m.swizzle)  # fmt: skip
        if not allowed:
            why = "the matrix instruction reads swizzled memory"
            lowering.remarks.add(name, alloc.span, str(made), ("no swizzle, as asked", why))
        return made
    swizzles = _swizzles(alloc) if allowed else []
    if uses.bulk:
        return swizzles[0] if swizzles else rows
    return _counted(uses, [rows, *swizzles, *_padded(uses)], name, lowering)


def _swizzles(alloc: ir.Alloc) -> list[SharedLayout]:
    """The swizzles whose panels divide the rows, widest first."""
    row = alloc.shape[-1] * alloc.dtype.bytes if len(alloc.shape) > 1 else 0
    return [SharedLayout(alloc.shape, alloc.dtype, s) for s in SWIZZLES if row and row % s == 0]


def _padded(uses: _Uses) -> list[SharedLayout]:
    """Paddings after which wide accesses stay aligned."""
    shape, dtype = uses.alloc.shape, uses.alloc.dtype
    if len(shape) < 2:
        return []
    width = CHUNK if uses.chunked else max([p.width for p in uses.patterns], default=4)
    return [SharedLayout(shape, dtype, pad=max(max(width, 4) // dtype.bytes, 1))]


def _counted(
    uses: _Uses, options: list[SharedLayout], name: str, lowering: Lowering
) -> SharedLayout:
    """The option with the fewest wavefronts; among equal ones the first."""
    counts = {option: _count(option, uses.patterns) for option in options}
    best = min(options, key=lambda option: counts[option].transactions)
    if counts[options[0]].ways > 1:
        lost = [
            (str(o), f"{counts[o].ways:.3g} wavefronts for each that its bytes need")
            for o in options
            if counts[o].transactions > counts[best].transactions
        ]
        severity = "missed" if counts[best].ways > 1.5 else "info"
        shown = f"{best}, {counts[best].ways:.3g} wavefronts for each that its bytes need"
        lowering.remarks.add(
            name, uses.alloc.span, shown, *lost,
            severity="missed" if severity == "missed" else "info",
        )  # fmt: skip
    return best


def _count(layout: SharedLayout, patterns: list[_Pattern]) -> Accesses:
    requests_ = transactions = ideal = 0
    for pattern in patterns:
        taken, needed = wavefronts(layout.address(pattern.lanes), pattern.width)
        requests_ += pattern.count
        transactions += taken * pattern.count
        ideal += needed * pattern.count
    return Accesses(requests_, transactions, ideal)
