"""Loops over elements that add a whole fragment to a tensor, as one tile that is added.

    parallel [64, 64] (i, j):
      %v = load %f, [i, j]               ⇒    tile_atomic add %f, %x[b, r : r + 64, c : c + 64]
      atomic add %v, %x, [b, r + i, c + j]

A tile is added by TMA, without an address and a request for each element.
In: a loop over elements.  Out: the tile op, or None where the loop does anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tileprof import ir
from tileprof.ir.memory import base


@dataclass(frozen=True, slots=True)
class AddedTile:
    """Ops that nobody has emitted yet."""

    offsets: list[ir.OpBase]
    """Ops that compute where the part of the tensor begins."""
    part: ir.View
    op: ir.TileAtomic


def added_tile(loop: ir.Parallel) -> AddedTile | None:
    """Return the tile op that a loop over elements is, None where it does anything else."""
    if not loop.body.ops:
        return None
    *before, last = loop.body.ops
    loads = [o for o in before if isinstance(o, ir.Load)]
    sums = [o for o in before if not isinstance(o, ir.Load)]
    if not isinstance(last, ir.Atomic) or last.kind != "add" or len(loads) != 1:
        return None
    if not all(isinstance(o, ir.Binary | ir.Constant) for o in sums):
        return None
    (load,) = loads
    if last.value is not load.result or not _is_whole(load, loop):
        return None
    zero = ir.Constant(0, ir.index)
    offsets_by: list[ir.OpBase] = [zero]
    inner = {*loop.body.args, load.result}
    for op in sums:
        if inner.isdisjoint(op.operand_values()):
            offsets_by.append(op)
        else:
            inner.update(op.results)
    sizes: list[int] = []
    offsets: list[ir.Value] = []
    waiting = list(zip(loop.body.args, load.buffer.buffer.static_shape, strict=True))
    for index in last.indices:
        if waiting and (offset := _offset(index, waiting[0][0], zero.result, inner)) is not None:
            sizes.append(waiting.pop(0)[1])
            offsets.append(offset)
        elif index not in inner:
            sizes.append(1)
            offsets.append(index)
        else:
            return None
    if waiting or not sizes or sizes[-1] == 1:
        return None
    view = ir.View(last.buffer, offsets, tuple(sizes), last.in_bounds, span=loop.span)
    added = ir.TileAtomic("add", load.buffer, view.result, span=loop.span)
    return AddedTile(offsets_by, view, added)


def _is_whole(load: ir.Load, loop: ir.Parallel) -> bool:
    """Whether the points read each element of a fragment once, in order."""
    held = load.buffer
    extents = loop.static_extents
    plain = held.buffer.space == "fragment" and base(held) is held
    return plain and held.buffer.shape == extents and _same(load.indices, loop.body.args)


def _same(one: Sequence[ir.Value], other: Sequence[ir.Value]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other))


def _offset(
    index: ir.Value, variable: ir.Value, zero: ir.Value, inner: set[ir.Value]
) -> ir.Value | None:
    """Return what is added to a loop variable to give an index; None where it is anything else."""
    if index is variable:
        return zero
    match index.owner:
        case ir.Binary(kind="add", left=left, right=right):
            for one, other in ((left, right), (right, left)):
                if one is variable and other not in inner:
                    return other
    return None
