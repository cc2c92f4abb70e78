"""Loops over elements that each thread has for itself; iterations of loops.

    T.copy(A[tx, 0:4], a)      ⇒      for i in T.vectorized(4):
                                          a[i] = A[tx, i]

A copy whose place differs between threads is no tile operation of the block: each thread moves
elements of its own.

In: a copy or fill, one side of which is in memory of a thread.  Out: loops over the elements, and
the constants that they need.  Vectorized loops whose statements differ along different axes of the
block become one loop for each statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tileprof import ir
from tileprof.ir.builder import Builder
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone, clone_block

from .differences import Differences

_INDEX = ir.dtype("index")
_SPLIT = (ir.ScalarOp, ir.Load, ir.Store, ir.If, ir.Yield)
"""Ops of a loop that may be split: nothing but stores has an effect."""


@dataclass(frozen=True, slots=True)
class Elements:
    """A copy or fill as loops."""

    before: list[ir.OpBase]
    """Bounds of the loops."""
    loop: ir.For


def is_private(op: ir.OpBase) -> TypeGuard[ir.Copy | ir.Fill]:
    """Return whether an op copies or fills memory of each thread."""
    places = {ir.Copy: ("source", "target"), ir.Fill: ("target",)}.get(type(op), ())
    return any(base(getattr(op, name)).buffer.space == "local" for name in places)


def prepare(body: ir.Block, facts: Differences) -> None:
    """Move what stands in the way of one statement for all threads, in place.

    Allocations go in front of a loop or branch that differs between threads: they are no work, and
    say nothing about the content.  In what only some threads do, copies and fills of their own
    memory become loops.
    """
    ops: list[ir.OpBase] = []
    for op in body.ops:
        if facts.differs(op):
            for inner in op.blocks():
                ops += _allocations(inner)
                if facts.along(op.operand_values()):
                    _expand(inner)
        else:
            for inner in op.blocks():
                prepare(inner, facts)
        ops.append(op)
    body.ops[:] = ops


def _allocations(block: ir.Block) -> list[ir.OpBase]:
    """Take what each thread has for itself out of a block."""
    found: list[ir.OpBase] = []
    for op in list(block.ops):
        if isinstance(op, ir.Alloc) and op.space == "local":
            block.ops.remove(op)
            found.append(op)
        for inner in op.blocks():
            found += _allocations(inner)
    return found


def _expand(block: ir.Block) -> None:
    ops: list[ir.OpBase] = []
    for op in block.ops:
        if isinstance(op, ir.Copy | ir.Fill) and is_private(op):
            elements = by_elements(op)
            ops += [*elements.before, elements.loop]
        else:
            ops.append(op)
        for inner in op.blocks():
            _expand(inner)
    used = {v for op in ops for v in op.all_operand_values()}
    block.ops[:] = [op for op in ops if not isinstance(op, ir.View) or op.result in used]


def by_elements(op: ir.Copy | ir.Fill) -> Elements:
    """Return a copy or fill as loops over the elements of its target."""
    before = ir.Block()
    bounds = Builder(before, op.span)
    zero, one = bounds.constant(0), bounds.constant(1)
    sizes = [int(n) for n in op.target.buffer.shape]
    # Extents of 1 may be left out on one side of a copy only.
    counted = [at for at, size in enumerate(sizes) if size != 1] or list(range(len(sizes)))[-1:]
    stops = [bounds.constant(sizes[at]) for at in counted] or [one]
    counts = [ir.Value(_INDEX) for _ in stops]
    body = ir.Block([counts[-1]])
    builder = Builder(body, op.span)
    if isinstance(op, ir.Copy):
        value = builder.emit(ir.Load(*_element(op.source, counts, zero, builder))).result
        if value.dtype != op.target.dtype:
            value = builder.emit(ir.Cast(value, op.target.dtype)).result
    else:
        value = op.value
    builder.emit(ir.Store(value, *_element(op.target, counts, zero, builder)))
    loop = ir.For("vectorized", zero, stops[-1], one, body, span=op.span)
    for count, stop in zip(reversed(counts[:-1]), reversed(stops[:-1])):
        loop = ir.For("unroll", zero, stop, one, ir.Block([count], [loop]), span=op.span)
    return Elements(before.ops, loop)


def is_an_axis(loop: ir.For) -> bool:
    """Return whether the iterations of a vectorized loop write elements of their own."""
    (count,) = loop.body.args
    inner = list(ir.walk(loop.body))
    stores = {base(o.buffer): (o.buffer, o.indices) for o in inner if isinstance(o, ir.Store)}
    return (
        loop.kind == "vectorized"
        and all(
            isinstance(bound.owner, ir.Constant) and bound.owner.value == number
            for bound, number in ((loop.start, 0), (loop.step, 1))
        )
        and not any(isinstance(o, ir.Atomic | ir.For | ir.While | ir.Assert) for o in inner)
        and all(
            count in o.indices and (o.buffer, o.indices) == stores[base(o.buffer)]
            for o in inner if isinstance(o, ir.Load | ir.Store) and base(o.buffer) in stores
        )
    )  # fmt: skip


def split_loops(body: ir.Block, facts: Differences) -> None:
    """Make one loop for each statement of a vectorized loop that fills arrays of different threads,
    in place.

        for v in T.vectorized(8):               for v in T.vectorized(8):
            a[v] = A[ty, tx * 8 + v]                a[v] = A[ty, tx * 8 + v]
            x[v] = X[tx * 8 + v]          ⇒     for v in T.vectorized(8):
                                                    x[v] = X[tx * 8 + v]

    `x` has a row for each `tx` only, so one loop over the threads cannot fill both.
    """
    ops: list[ir.OpBase] = []
    for op in body.ops:
        for inner in op.blocks():
            split_loops(inner, facts)
        ops += _statements(op, facts) if isinstance(op, ir.For) and is_an_axis(op) else [op]
    body.ops[:] = ops


def _statements(loop: ir.For, facts: Differences) -> list[ir.OpBase]:
    """Return a loop for each statement.

    The loop itself is returned where its arrays have a row for each of the threads between which
    its values differ, where a statement uses what was read before another one wrote it, or where it
    does more than compute and store.
    """
    stores = [o for o in ir.walk(loop.body) if isinstance(o, ir.Store)]
    filled = [o for o in loop.body.ops if any(a.writes for a in o.all_accesses())]
    axes = facts.along(loop.all_operand_values())
    if (
        all(facts.private.get(base(o.buffer), axes) == axes for o in stores)
        or any(o.results for o in filled)
        or not all(isinstance(o, _SPLIT) for o in ir.walk(loop.body))
    ):
        return [loop]
    parts: list[ir.OpBase] = []
    for statement in filled:
        kept, used = [statement], set(statement.all_operand_values())
        written: set[ir.Value] = set()
        for op in reversed(loop.body.ops[: loop.body.ops.index(statement)]):
            if used.isdisjoint(op.results):
                written |= {base(a.value) for a in op.all_accesses() if a.writes}
            elif written.isdisjoint(base(a.value) for a in op.all_accesses() if a.reads):
                kept.insert(0, op)
                used |= set(op.all_operand_values())
            else:
                return [loop]
        part = clone_block(ir.Block(loop.body.args, kept), {})
        parts.append(clone(loop, {}, {"body": part}))
    return parts


def rounds_of(loop: ir.For) -> list[ir.OpBase]:
    """Return the ops that count the iterations of a loop whose step is a constant, an int32."""
    assert isinstance(loop.step.owner, ir.Constant)
    step = int(loop.step.owner.value)
    first, last = (loop.start, loop.stop) if step > 0 else (loop.stop, loop.start)
    less, size, zero = (ir.Constant(n, _INDEX) for n in (abs(step) - 1, abs(step), 0))
    distance = ir.Binary("sub", last, first)
    more = ir.Binary("add", distance.result, less.result)
    rounds = ir.Binary("floordiv", more.result, size.result)
    some = ir.Binary("max", rounds.result, zero.result)
    ops = [less, size, zero, distance, more, rounds, some]
    ops.append(ir.Cast(some.result, ir.dtype("int32")))
    for op in ops:
        op.span = loop.span
    return ops


def _element(
    place: ir.Value, counts: Sequence[ir.Value], zero: ir.Value, builder: Builder
) -> tuple[ir.Value, list[ir.Value]]:
    """Return a buffer and the indices in it of an element of a place, its extents of 1 not
    counted."""
    shape = place.buffer.shape
    long = [at for at, size in enumerate(shape) if size != 1]
    at = dict(zip(long, counts)) if long else {}
    indices = [at.get(axis, zero) for axis in range(len(shape))]
    while isinstance(place.owner, ir.View):
        offsets, place = place.owner.offsets, place.owner.base
        indices = [_sum(o, i, zero, builder) for o, i in zip(offsets, indices)]
    return place, indices


def _sum(offset: ir.Value, index: ir.Value, zero: ir.Value, builder: Builder) -> ir.Value:
    if index is zero:
        return offset
    if isinstance(offset.owner, ir.Constant) and offset.owner.value == 0:
        return index
    return builder.emit(ir.Binary("add", offset, index)).result
