"""Layouts of shared buffers: swizzles where instructions want them, else by counted conflicts.

matrix products, TMA     the widest swizzle that the instruction and the rows allow
seen under another shape rows: elements have to lie where the other shape expects them
everything else          rows, padded rows or a swizzle, whichever takes the fewest wavefronts
                         over all accesses of the kernel
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.compiler.cuda.layouts import matrix
from tileprof.compiler.cuda.layouts.candidates import candidates
from tileprof.compiler.cuda.layouts.cost import Accesses, wavefronts
from tileprof.compiler.cuda.layouts.exchange import has_thread_lines
from tileprof.compiler.cuda.layouts.registers import Digit, RegisterLayout
from tileprof.compiler.cuda.layouts.shared import (
    CHUNK,
    SWIZZLES,
    SharedLayout,
    parse_shared,
)
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.tuning import JOINT_LAYOUTS, WAVEFRONTS_LEFT
from tileprof.instrument.placement.stages import buffer_name
from tileprof.ir.instructions import CpAsync, Matrices, Tma, Wgmma
from tileprof.ir.memory import base
from tileprof.remarks import Candidate, Reason, Severity
from tileprof.remarks.common import Asked
from tileprof.remarks.layouts import (
    AnySwizzle,
    BetterLayout,
    CostsWavefronts,
    OtherSharedLayout,
    SharedLayoutOf,
    SwizzledRead,
    UsedOtherShape,
)

from .cost import Placed, ideal, loop_cost
from .flow import Known
from .graph import Access, Graph, Loop
from .solve import Solution

Lanes = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Pattern:
    """Requests of one warp: coordinates int64[32, rank], bytes a lane, and how many there are."""

    lanes: Lanes
    width: int
    count: int


@dataclass
class _Uses:
    """Uses of one buffer."""

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
    """Patterns of copies of matrices, and of scans."""
    accesses: list[tuple[Access, Loop]] = field(default_factory=list)
    wish: str = ""


def shared_layouts(graph: Graph, solution: Solution, lowering: Lowering) -> dict[ir.Value, str]:
    """The layout text of each shared buffer of a launch; loops that nothing else binds may get
    another layout, in which they have fewer conflicts."""
    uses = {alloc.result: _Uses(alloc) for alloc in graph.shared}
    if not uses:
        return {}
    for op, weight in graph.ops:
        _tile_op(op, weight, uses, solution)
        if isinstance(op, ir.Scan):
            for value in (op.source, op.target):
                if (held := uses.get(base(value))) is not None:
                    held.patterns.append(_scan_pattern(op, held.alloc, graph.threads, weight))
    for loop in graph.loops.values():
        for access in loop.accesses:
            held = uses.get(base(access.buffer))
            if held is not None and access.is_shared:
                held.accesses.append((access, loop))
    chooser = _Chooser(graph, solution, lowering)
    return {value: str(chooser.answered(each)) for value, each in uses.items()}


def _tile_op(op: ir.OpBase, weight: int, uses: dict[ir.Value, _Uses], solution: Solution) -> None:
    match op:
        case ir.Gemm(a=a, b=b):
            for which, value in (("a", a), ("b", b)):
                held = uses.get(base(value))
                if held is not None:
                    text = matrix.shared_layout(op, "a" if which == "a" else "b")
                    held.wanted.append(text)
                    held.fixed |= isinstance(op.lowering, Wgmma)
        case ir.Copy(source=source, target=target, lowering=instruction) if instruction is not None:
            for value, other in ((source, target), (target, source)):
                held = uses.get(base(value))
                if held is not None:
                    held.bulk |= isinstance(instruction, Tma)
                    held.chunked |= isinstance(instruction, CpAsync)
                    if isinstance(instruction, Matrices):
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


# -- copies of matrices

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
    return _Pattern(layout.lane_coordinates, width * value.dtype.bytes, count)


def _scan_pattern(op: ir.Scan, alloc: ir.Alloc, threads: int, weight: int) -> _Pattern:
    """A scan of a tile: lanes at elements of a line, or each at a line of its own."""
    shape, lane = op.target.buffer.static_shape, np.arange(32)
    others = [1 if d == op.dim else extent for d, extent in enumerate(shape)]
    length, lines = shape[op.dim], math.prod(others)
    at = np.zeros((32, len(alloc.shape)), np.int64)
    tile = at[:, len(alloc.shape) - len(shape) :]
    if has_thread_lines(lines, length, threads):
        tile[...] = np.stack(np.unravel_index(np.minimum(lane, lines - 1), others), axis=1)
        count = -(-lines // threads) * length
    else:
        tile[:, op.dim] = np.minimum(lane, length - 1)
        count = -(-lines * 32 // threads) * -(-length // 32)
    return _Pattern(at, alloc.dtype.bytes, count * weight)


# -- the choice


@dataclass
class _Chooser:
    """Chooses the layouts of shared buffers, one by one."""

    graph: Graph
    solution: Solution
    lowering: Lowering

    def answered(self, uses: _Uses) -> SharedLayout:
        """The layout of one buffer; a wish of the author that it does not meet is told."""
        made = self.layout(uses)
        wish = uses.wish or uses.alloc.layout
        met = made.swizzle != 0 if "swizzle" in wish else str(made) == wish
        if wish and not met and not uses.reshaped:
            self._tell(uses, made, (Asked(wish), BetterLayout()), missed=True)
        return made

    def layout(self, uses: _Uses) -> SharedLayout:
        """The layout of one buffer."""
        alloc, allowed = uses.alloc, self.lowering.controls.swizzle
        rows = SharedLayout(alloc.shape, alloc.dtype)
        if uses.reshaped:
            if uses.wanted or uses.wish:
                self._tell(uses, rows, (AnySwizzle(), UsedOtherShape()), missed=True)
            return rows
        if uses.wanted and (allowed or uses.fixed):
            options = [parse_shared(t, alloc.shape, alloc.dtype) for t in uses.wanted]
            made = min(options, key=lambda m: m.swizzle)
            if not allowed:
                self._tell(uses, made, (Asked("no swizzle"), SwizzledRead()))
            return made
        swizzles = _swizzles(alloc) if allowed else []
        if uses.bulk:
            return swizzles[0] if swizzles else rows
        return self._counted(uses, [rows, *swizzles, *_padded(alloc)])

    def _tell(
        self,
        uses: _Uses,
        made: SharedLayout,
        *rejected: tuple[Candidate, Reason],
        ways: float = 0.0,
        missed: bool = False,
    ) -> None:
        decision = SharedLayoutOf(str(made), ways)
        name, span = buffer_name(uses.alloc.result), uses.alloc.span
        severity: Severity = "missed" if missed else "info"
        self.lowering.remarks.add("buffer", name, span, decision, *rejected, severity=severity)

    def _counted(self, uses: _Uses, options: list[SharedLayout]) -> SharedLayout:
        """The option with the fewest cycles; among equal ones the first."""
        options = [o for o in options if not uses.chunked or o.pad * o.dtype.bytes % CHUNK == 0]
        known: Known = {loop.op: self.solution.known[loop.op] for _, loop in uses.accesses}
        counts = {option: _count(option, uses, known) for option in options}
        best = min(options, key=lambda option: counts[option].cost)
        if counts[best].ways > WAVEFRONTS_LEFT:
            best, known = self._together(uses, options, best)
            counts = {option: _count(option, uses, known) for option in options}
            self.solution.known.update(known)
        if counts[options[0]].ways > 1 and counts[best].requests:
            lost = [
                (OtherSharedLayout(str(o)), CostsWavefronts(counts[o].ways))
                for o in options
                if counts[o].cost > counts[best].cost
            ]
            ways = counts[best].ways
            self._tell(uses, best, *lost, ways=ways, missed=ways > WAVEFRONTS_LEFT)
        return best

    def _together(
        self, uses: _Uses, options: list[SharedLayout], best: SharedLayout
    ) -> tuple[SharedLayout, Known]:
        """A layout together with those of the loops that nothing else binds."""
        loops: dict[Loop, list[RegisterLayout]] = {}
        for _, loop in uses.accesses:
            if loop not in loops:
                loops[loop] = self._layouts(loop, uses)
        chosen: Known = {}
        lowest = float("inf")
        for option in sorted(options, key=lambda o: o != best):
            placed = {access: Placed(access, option) for access, _ in uses.accesses}
            total = 0.0
            layouts: Known = {}
            for loop, tried in loops.items():
                cost, _, layout = min(
                    (loop_cost(loop, made, placed), at, made) for at, made in enumerate(tried)
                )
                total, layouts[loop.op] = total + cost * loop.weight, layout
            if total < lowest:
                best, chosen, lowest = option, layouts, total
        return best, chosen

    def _layouts(self, loop: Loop, uses: _Uses) -> list[RegisterLayout]:
        """Return what a loop may have: where no fragment binds it, all that is good for its
        accesses of global memory."""
        known = self.solution.known[loop.op]
        if self.graph.at.get(loop.op):
            return [known]
        widest = CHUNK // min(a.buffer.dtype.bytes for a in loop.accesses)
        vectorize = self.lowering.controls.vectorize
        dims = range(len(loop.extents))
        tried = [known]
        tried += candidates(loop.extents, self.graph.threads, widest if vectorize else 1, dims)
        held = {access for access, _ in uses.accesses}
        elsewhere = replace(loop, accesses=[a for a in loop.accesses if a not in held])
        costs = [loop_cost(elsewhere, made) for made in tried]
        order = sorted(range(len(tried)), key=costs.__getitem__)
        return [tried[at] for at in order[:JOINT_LAYOUTS]]


def _swizzles(alloc: ir.Alloc) -> list[SharedLayout]:
    """The swizzles whose panels divide the rows, widest first."""
    row = alloc.shape[-1] * alloc.dtype.bytes if len(alloc.shape) > 1 else 0
    return [SharedLayout(alloc.shape, alloc.dtype, s) for s in SWIZZLES if row and row % s == 0]


def _padded(alloc: ir.Alloc) -> list[SharedLayout]:
    """Paddings after which wide accesses stay aligned, and one by the width of a bank."""
    if len(alloc.shape) < 2:
        return []
    pads = dict.fromkeys(max(width // alloc.dtype.bytes, 1) for width in (CHUNK, 4))
    return [SharedLayout(alloc.shape, alloc.dtype, pad=pad) for pad in pads]


def _count(layout: SharedLayout, uses: _Uses, known: Known) -> Accesses:
    """Requests of all accesses of a buffer under a layout."""
    found: list[tuple[int, int, int]] = []
    for access, loop in uses.accesses:
        made = Placed(access, layout).requests(loop, known[loop.op])
        found.append((made.count * loop.weight, made.transactions, ideal(made)))
    for pattern in uses.patterns:
        found.append((pattern.count, *wavefronts(layout.address(pattern.lanes), pattern.width)))
    return Accesses(
        sum(count for count, _, _ in found),
        sum(count * taken for count, taken, _ in found),
        sum(count * needed for count, _, needed in found),
    )
