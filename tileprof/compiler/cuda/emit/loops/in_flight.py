"""Iterations of a loop of the author's that stand one after the other in the machine code.

In: a loop after layouts.  Out: the number that its `#pragma unroll` asks for.  The emission writes
it, and who counts what the machine code does asks for the same.

Serial loops are written out so that loads of several iterations are in flight at once.  A loop
that reads tiles from global memory straight into registers has nothing that runs ahead: as one
body, each iteration waits for its loads before the next one begins its own.

    #pragma unroll                       // 4 iterations of 16 bytes: four loads, then their sums
    for (int k = 0; k < 4; ++k) {
      tp_get_global<8>(x, X + k * 32 + …);
      …

Where a block is one warp, its barriers are not the block's, and the assembler moves loads from
tensors that the loop leaves alone over them: shared memory and reductions do not matter then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from tileprof import ir
from tileprof.binary.occupancy import WARP
from tileprof.compiler.codegen.expressions import is_pure
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.compiler.cuda.tuning import (
    BYTES_IN_FLIGHT,
    UNROLLED_AT_ONCE,
    UNROLLED_POINTS,
    UNROLLED_TRIPS,
)
from tileprof.ir.memory import base


def iterations_of(loop: ir.For) -> range | None:
    """Return the loop variable's values where they are known when the kernel is compiled."""
    bounds = _numbers(loop.start, loop.stop, loop.step)
    return range(*bounds) if len(bounds) == 3 and bounds[2] else None


def iterations_at_once(loop: ir.For, aliased: bool, threads: int) -> int:
    """Return how many iterations of a loop are written out one after the other: 1 for one by one,
    0 where NVRTC decides.  aliased: whether a tensor that is written may overlap another; threads:
    those of the block, or of the role that runs the loop."""
    values = iterations_of(loop)
    count = len(values or ())
    if numbers_registers(loop):
        return count
    if loop.kind in ("unroll", "vectorized") and values is not None:
        return count if count <= UNROLLED_TRIPS else UNROLLED_AT_ONCE
    if loop.kind in ("serial", "pipelined") and count > 1:
        together = _in_flight(loop, count, aliased, threads)
        if together > 1:
            return together
    # A loop over tiles has long bodies: unrolling it would cost more to compile than it gives.
    works = any(
        isinstance(o, ir.Parallel | ir.DeviceOp) and not isinstance(o, ir.Mark)
        for o in ir.walk(loop.body)
    )
    return int(works)


def numbers_registers(loop: ir.For) -> bool:
    """Return whether the loop's variable chooses a register: its number has to be known when
    compiled."""
    (variable,) = loop.body.args
    found = {variable}
    for each in ir.walk(loop.body):
        if isinstance(each, ir.Load | ir.Store) and found.intersection(each.indices):
            if each.buffer.buffer.space == "fragment":
                return True
        elif not found.isdisjoint(each.operand_values()):
            found |= set(each.results)
    return False


def _numbers(*values: ir.Value) -> tuple[int, ...]:
    """Return the numbers of those that are constants."""
    return tuple(int(v.owner.value) for v in values if isinstance(v.owner, ir.Constant))


def _in_flight(loop: ir.For, trips: int, aliased: bool, threads: int) -> int:
    """Return how many iterations of a loop with so many load at once; 1 where nothing is gained."""
    most = trips
    if not all(map(_is_simple, loop.body.ops)) or _writes_shared(loop):
        if threads > WARP or not all(_is_of_a_warp(op) for op in loop.body.ops):
            return 1
        most = min(trips, UNROLLED_AT_ONCE)
    if _orders_loads(loop, aliased):
        return 1
    points = size = 0
    for each in loop.body.ops:
        if isinstance(each, ir.Parallel):
            count = parse_layout(each.layout, _numbers(*each.extents)).registers_per_thread
            points += count * math.prod(
                max(len(iterations_of(o) or ()), 1)
                for o in ir.walk(each.body)
                if isinstance(o, ir.For)
            )
            size += count * sum(load.buffer.dtype.bytes for load in _loads(each))
    if not size:
        return 1
    return max(min(most, BYTES_IN_FLIGHT // size, UNROLLED_POINTS // points), 1)


def _is_simple(op: ir.OpBase) -> bool:
    """Whether an op of the body keeps no other one waiting: points of registers, and scalars.

    Accesses that may be outside stand in branches, over which no load is moved.
    """
    if isinstance(op, ir.Parallel):
        return bool(op.layout) and not any(
            isinstance(o, ir.While | ir.If | ir.Atomic | ir.DeviceOp)
            or (isinstance(o, ir.For) and not _is_arithmetic(o))
            or (isinstance(o, ir.Load | ir.Store) and not o.in_bounds)
            for o in ir.walk(op.body)
        )
    return is_pure(op) or isinstance(op, ir.View | ir.Alloc | ir.Mark)


def _is_arithmetic(loop: ir.For) -> bool:
    """Whether a loop inside of a point is written out and works on registers alone."""
    return numbers_registers(loop) and all(
        a.value.buffer.space == "fragment" for op in ir.walk(loop.body) for a in op.accesses()
    )


def _is_of_a_warp(op: ir.OpBase) -> bool:
    """Whether the lanes of a warp do an op without waiting for other warps."""
    match op:
        case ir.Barrier():
            return True
        case ir.Reduce(scratch=scratch):
            return scratch is None
        case ir.Copy(source=source, target=target):
            return "global" not in (source.buffer.space, target.buffer.space)
        case _:
            return _is_simple(op)


def _loads(op: ir.Parallel) -> Iterator[ir.Load]:
    """The loads from global memory that the points of a loop make."""
    for each in ir.walk(op.body):
        if isinstance(each, ir.Load) and base(each.buffer).buffer.space == "global":
            yield each


def _writes_shared(loop: ir.For) -> bool:
    """Whether an iteration writes shared memory, whose barriers stand between loads."""
    touches = (t for op in loop.body.ops for t in op.all_accesses())
    return any(t.writes and base(t.value).buffer.space == "shared" for t in touches)


def _orders_loads(loop: ir.For, aliased: bool) -> bool:
    """Whether an iteration writes what the loads of the next one may read."""
    touches = [t for op in loop.body.ops for t in op.all_accesses()]
    written = {base(t.value) for t in touches if t.writes}
    outside = {v for v in written if v.buffer.space == "global"}
    read = {base(t.value) for t in touches if t.reads}
    return bool(outside) and (aliased or bool(outside & read))
