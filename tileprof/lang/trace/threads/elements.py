"""Copies and fills of what each thread has for itself, element by element.

    T.copy(A[tx, 0:4], a)      ⇒      for i in T.vectorized(4):
                                          a[i] = A[tx, i]

A copy whose place differs between threads is no tile operation of the block: each thread moves
elements of its own.

In: a copy or fill, one side of which is in memory of a thread.  Out: loops over the elements, and
the constants that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from tileprof import ir
from tileprof.ir.builder import Builder
from tileprof.ir.memory import base

_INDEX = ir.dtype("index")


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
