"""Cost of each element access of a laid-out loop, counted from the addresses of one warp.

In: a kernel whose loops and buffers have layouts.  Out: remarks, no change: sectors of global
memory and wavefronts of shared memory of a request, as against the fewest that its bytes need.
What is known at launch only counts as 0, a stride as a multiple of a sector.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, row_major
from tileprof.compiler.cuda.emit.buffers import Buffer, GlobalBuffer, SharedBuffer, buffers_of
from tileprof.compiler.cuda.emit.loops.vectors import Planner, VectorAccess
from tileprof.compiler.cuda.layouts import RegisterLayout, SharedLayout, parse_layout, parse_shared
from tileprof.compiler.cuda.layouts.cost import Accesses, sectors, wavefronts
from tileprof.compiler.cuda.layouts.neighbours import Window, windows
from tileprof.compiler.cuda.layouts.turns import Turn, turn_of
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.target import SECTOR
from tileprof.compiler.cuda.tuning import MISSED_ACCESS, UNKNOWN_STRIDE, WASTEFUL_ACCESS
from tileprof.instrument.placement.stages import buffer_name
from tileprof.remarks import Candidate, Reason, Severity
from tileprof.remarks.common import InLayout
from tileprof.remarks.layouts import (
    FewerSectors,
    GlobalAccess,
    KeptConflicts,
    LoadedBefore,
    LosingConflicts,
    NoConflicts,
    NotAligned,
    OneAccess,
    OtherBranch,
    ScatteredLanes,
    SharedAccess,
    TouchedBetween,
    WithNeighbours,
)

from .index import evaluate

Array = npt.NDArray[np.int64]
Access = ir.Load | ir.Store | ir.Atomic


def count_accesses(kernel: ir.Kernel, lowering: Lowering) -> None:
    """Note the cost of every access of global or shared memory in a loop with a layout."""
    buffers = buffers_of(kernel, _strides, lowering.unaligned)
    for op in kernel.ops():
        if isinstance(op, ir.Parallel) and op.layout:
            _loop(op, buffers, lowering)


def _strides(_: ir.Param, kind: ir.BufferType) -> tuple[Extent, ...]:
    return row_major(kind.shape) if kind.strides is None else kind.strides


def _loop(op: ir.Parallel, buffers: dict[ir.Value, Buffer], lowering: Lowering) -> None:
    shape = op.static_extents
    if shape is None:
        return
    layout = parse_layout(op.layout, shape)
    vectorize = lowering.controls.vectorize
    # Conditions on what is known at launch are taken to hold: this is about the fast form.
    adds = lowering.target.adds_vectors
    planner = Planner(
        op=op, layout=layout, buffers=buffers, text=lambda value: "x", aliased=lowering.aliased,
        vectorize=vectorize, adds=adds,
    )  # fmt: skip
    loads = planner.loads()
    moved = (*loads, *planner.stores(loads, lambda store: False))
    made: dict[ir.OpBase, VectorAccess] = {op: a for a in moved for op in a.ops}
    apart = _apart(planner, made)
    for each in ir.walk(op.body):
        if isinstance(each, ir.Load | ir.Store | ir.Atomic) and each.indices:
            buffer, access = buffers.get(each.buffer), made.get(each)
            if not isinstance(buffer, GlobalBuffer | SharedBuffer):
                continue
            if access is not None and access.op is not each:
                name = buffer_name(each.buffer)
                same = dict(access.places)[each] == 0
                held = (LoadedBefore if same else WithNeighbours)(_line(access.op))
                lowering.remarks.add(each.SPEC.name, name, each.span, held)
                continue
            turn = None
            whole = access is not None and access.width == planner.width and not access.members
            if isinstance(buffer, SharedBuffer) and whole and access and not access.guards:
                turn = turn_of(op, layout, buffer.layout, planner.width)
            indices = _indices(op, layout, each, turn)
            width = access.width if access is not None else 1
            _tell(each, buffer, indices, width, lowering, apart.get(each))


def _apart(
    planner: Planner, made: Mapping[ir.OpBase, VectorAccess]
) -> dict[ir.OpBase, tuple[Candidate, Reason]]:
    """Return what keeps neighbours of a point from being one access, for each of them; nothing for
    those that neighbouring points access, too."""
    known = []
    for op in planner.ops:
        if isinstance(op, ir.Load | ir.Store) and (address := planner.address(op)) is not None:
            known.append((op, replace(address, guards=())))

    def fits(window: Window) -> bool:
        terms = window.address.terms
        moving = [factor for value, factor in terms.items() if value in planner.varying]
        return window.size > 1 and bool(moving) and math.gcd(*moving) % window.size == 0

    found: dict[ir.OpBase, tuple[Candidate, Reason]] = {}
    for window in windows(known, fits):
        ops = [op for op, _ in window.members]
        if any(op in made and made[op].step > 1 for op in ops):
            continue
        read_first = all(isinstance(op, ir.Store) or op in planner.movable for op in ops)
        read = _read(planner) if isinstance(window.first, ir.Store) else set[ir.Value]()
        branches = [planner.guards.get(op, ()) for op in ops]
        for op in ops:
            other = next(each for each in ops if each is not op)
            reason: Reason = NotAligned(window.size)
            if any(branch != branches[0] for branch in branches):
                reason = OtherBranch(_line(other))
            elif not read_first or window.first.buffer in read:
                reason = TouchedBetween(buffer_name(op.buffer), _line(other))
            found[op] = OneAccess(window.size), reason
    return found


def _read(planner: Planner) -> set[ir.Value]:
    """Return the buffers that points read in their place."""
    return {
        op.buffer for op in planner.ops if isinstance(op, ir.Load) and op not in planner.movable
    }


def _line(op: ir.OpBase) -> int:
    return op.span.line if op.span is not None else 0


def _indices(op: ir.Parallel, layout: RegisterLayout, access: Access, turn: Turn | None) -> Array:
    """The indices of each lane of the first warp in the register with which it begins: int64[32,
    rank]; -1 for a lane that takes no part."""
    points = layout.table()[:32, 0, :]
    if turn is not None:
        exchanged = np.arange(32) >> turn.lane_bit & 1
        points = points + exchanged[:, None] * np.array(turn.step, np.int64)
    at = {variable: points[:, d] for d, variable in enumerate(op.body.args)}
    indices = np.stack([evaluate(i, at, (32,)) for i in access.indices], axis=-1)
    idle: npt.NDArray[np.bool_] = np.any(points >= np.array(layout.shape), axis=1)
    if not isinstance(access, ir.Load):
        # Of lanes with one point only the first changes memory.
        first = np.unique(points, axis=0, return_index=True)[1]
        idle[np.setdiff1d(np.arange(32), first)] = True
    indices[idle] = -1
    return indices


def _tell(
    access: Access,
    buffer: GlobalBuffer | SharedBuffer,
    indices: Array,
    width: int,
    lowering: Lowering,
    apart: tuple[Candidate, Reason] | None,
) -> None:
    size = width * buffer.dtype.bytes
    counted = _count(buffer, indices, size)
    decision = GlobalAccess if isinstance(buffer, GlobalBuffer) else SharedAccess
    made = decision(size, counted.transactions, counted.ideal)
    op, name = access.SPEC.name, buffer_name(access.buffer)
    if counted.ways < WASTEFUL_ACCESS:
        lowering.remarks.add(op, name, access.span, made, *([apart] if apart else []))
        return
    rejected = apart or _better(buffer, indices, size, counted, lowering.controls.swizzle)
    missed = counted.ways >= MISSED_ACCESS[access.buffer.buffer.space]
    severity: Severity = "missed" if missed else "info"
    lowering.remarks.add(op, name, access.span, made, rejected, severity=severity)


def _count(buffer: GlobalBuffer | SharedBuffer, indices: Array, size: int) -> Accesses:
    active = indices[:, 0] >= 0
    if isinstance(buffer, SharedBuffer):
        offsets = np.where(active, buffer.layout.address(np.maximum(indices, 0)), -1)
        return Accesses(1, *wavefronts(offsets, size))
    strides = np.array(
        [s if isinstance(s, int) else UNKNOWN_STRIDE for s in buffer.strides], np.int64
    )
    offsets = (indices * strides).sum(axis=1) * buffer.dtype.bytes
    return Accesses(1, *sectors(np.where(active, offsets, -1), size))


def _better(
    buffer: GlobalBuffer | SharedBuffer, indices: Array, size: int, counted: Accesses, swizzle: bool
) -> tuple[Candidate, Reason]:
    """Return what the author could do, and what stands against it as the program is."""
    if isinstance(buffer, GlobalBuffer):
        return FewerSectors(counted.ideal), ScatteredLanes(buffer.name, SECTOR)
    ways = round(counted.ways)
    options = [
        (o, _count(replace(buffer, layout=o), indices, size)) for o in _options(buffer, swizzle)
    ]
    best = min(options, key=lambda pair: pair[1].transactions, default=None)
    if best is not None and best[1].transactions < counted.transactions:
        against = LosingConflicts(ways, str(buffer.layout), best[1].transactions)
        return InLayout(str(best[0])), against
    return NoConflicts(), KeptConflicts(ways)


def _options(buffer: SharedBuffer, swizzle: bool) -> list[SharedLayout]:
    """Other layouts that the buffer could have, swizzles where they are allowed."""
    held = buffer.layout
    row = held.columns * held.dtype.bytes
    texts = [f"swizzle={s}" for s in (128, 64, 32) if swizzle and row % s == 0]
    texts += [f"pad={max(b // held.dtype.bytes, 1)}" for b in (16, 4)]
    return [parse_shared(t, held.shape, held.dtype) for t in texts]
