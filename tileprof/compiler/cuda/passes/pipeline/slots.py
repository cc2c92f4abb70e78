"""Ops that use tiles, rewritten to use the slot of a ring that the tile is in.

In: an op, and the slot of each tile.  Out: copies of the op for the consumers.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.ir.rewriter import clone, rewrite_block

Mapping = dict[ir.Value, ir.Value]
Slots = dict[ir.Value, tuple[ir.Value, ir.Value]]
"""Buffer with all slots of each tile, and the slot that the tile is in."""


def slot_view(buffer: ir.Value, slot: ir.Value, ops: list[ir.OpBase]) -> ir.Value:
    """One slot of a ring's buffer as a tile; its ops are appended."""
    zero = ir.Constant(0, ir.dtype("index"))
    shape = buffer.buffer.static_shape
    view = ir.View(
        buffer, [slot, *[zero.result] * (len(shape) - 1)], (1, *shape[1:]), in_bounds=True
    )
    ops += [zero, view]
    return view.result


def consumed(op: ir.OpBase, mapping: Mapping, slots: Slots) -> list[ir.OpBase]:
    """A copy of an op for the consumers, in which tiles of rings are their slots."""

    def rule(new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        match new:
            case ir.View(base=tile) if tile in slots:
                buffer, slot = slots[tile]
                offsets, sizes = [slot, *new.offsets], (1, *new.sizes)
                view = ir.View(buffer, offsets, sizes, True, span=new.span, hint=new.hint)
                return [builder.emit(view).result]
            case ir.Load(buffer=tile) if tile in slots:
                buffer, slot = slots[tile]
                indices = [slot, *new.indices]
                load = ir.Load(buffer, indices, new.in_bounds, span=new.span, hint=new.hint)
                return [builder.emit(load).result]
            case _:
                used = [v for v in new.operand_values() if v in slots]
        if not used:
            return None
        views = {v: slot_view(*slots[v], builder.block.ops) for v in used}
        regions = {n: getattr(new, n) for n in new.SPEC.regions}
        return list(builder.emit(clone(new, views, regions)).results)

    return rewrite_block(ir.Block([], [op]), mapping, rule).ops
