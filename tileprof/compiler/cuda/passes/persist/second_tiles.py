"""Tiles that an iteration fills twice.

In: a launch with layouts.  Out: a launch that does not fill a tile with what it has, and in which a
tile is not filled while TMA may still store what it had: the second filling has a tile of its own.

    for k                                   for k
      copy F → S                              copy F → S
      copy S → V[k] (tma)             ⇒       copy S → V[k] (tma)
      F = F · G[k]                            F = F · G[k]
      copy F → S                              copy F → T
      gemm K, S, H                            gemm K, T, H

Otherwise all threads wait in the middle of an iteration until TMA has read the tile, behind what
the producer has asked it for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tileprof import ir
from tileprof.ir.instructions import Tma
from tileprof.ir.memory import base
from tileprof.ir.rewriter import clone_block, with_originals


def repeated_fills(launch: ir.Launch) -> list[ir.Copy]:
    """Return the copies of a fragment to a tile that has just this already."""
    found: list[ir.Copy] = []
    for block in (launch.body, *(b for o in ir.walk(launch.body) for b in o.blocks())):
        held: dict[ir.Value, ir.Value] = {}
        for op in block.ops:
            fill = op if isinstance(op, ir.Copy) and _is_fill(op) else None
            if fill is not None and held.get(fill.target) is fill.source:
                found.append(fill)
                continue
            written = {base(t.value) for t in op.all_accesses() if t.writes}
            held = {t: s for t, s in held.items() if written.isdisjoint((t, s))}
            if fill is not None:
                held[fill.target] = fill.source
    return found


def without(launch: ir.Launch, left_out: Sequence[ir.OpBase]) -> ir.Launch:
    """Return the launch without some ops that have no results."""

    def rule(op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        return [] if op in left_out else None

    return with_originals(launch, rule)


@dataclass(frozen=True)
class Refilled:
    """A tile that the iterations of a loop fill more than once."""

    tile: ir.Alloc
    moved: tuple[ir.OpBase, ...]
    """The ops that use the second tile in its place."""


def refilled_tiles(launch: ir.Launch) -> list[Refilled]:
    """Return the tiles that a loop fills again while TMA may still store them."""
    users = _users(launch)
    tiles = [o for o in ir.walk(launch.body) if isinstance(o, ir.Alloc) and o.space == "shared"]
    loops = [o for o in ir.walk(launch.body) if isinstance(o, ir.For)]
    found = []
    for tile in tiles:
        for loop in loops:
            ops = [op for op in loop.body.ops if _touches(op, tile.result)]
            inside = {o for op in ops for o in op.with_inner_ops()}
            if ops and inside.issuperset(users[tile.result]):
                moved = tuple(_moved(ops, tile.result))
                found += [Refilled(tile, moved)] if moved else []
    return found


def _users(launch: ir.Launch) -> dict[ir.Value, list[ir.OpBase]]:
    """The ops that have a buffer, or a part of it, as an operand; views are users, too."""
    users: dict[ir.Value, list[ir.OpBase]] = {}
    for op in ir.walk(launch.body):
        for value in op.operand_values():
            if isinstance(value.type, ir.BufferType):
                users.setdefault(base(value), []).append(op)
    return users


def _touches(op: ir.OpBase, tile: ir.Value) -> bool:
    values = (v for v in op.all_operand_values() if isinstance(v.type, ir.BufferType))
    return any(base(v) is tile for v in values)


def _moved(ops: Sequence[ir.OpBase], tile: ir.Value) -> Iterator[ir.OpBase]:
    """Yield those of a loop's ops on a tile that are better on a second one; none where the tile
    keeps something from iteration to iteration, or a part of it has a name."""
    first = ops[0]
    if not (isinstance(first, ir.Copy) and _fills(first, tile)):
        return
    if any(isinstance(o, ir.View) for op in ops for o in op.with_inner_ops()):
        return
    second = stored = False
    for op in ops:
        if isinstance(op, ir.Copy) and _fills(op, tile):
            second ^= stored
            stored = False
        elif isinstance(op, ir.Copy) and op.source is tile and isinstance(op.lowering, Tma):
            stored = True
        if second:
            yield op


def _fills(op: ir.Copy, tile: ir.Value) -> bool:
    return op.target is tile and _is_fill(op)


def _is_fill(op: ir.Copy) -> bool:
    """Whether threads copy a whole fragment to a whole tile."""
    spaces = [v.owner.space for v in (op.source, op.target) if isinstance(v.owner, ir.Alloc)]
    return spaces == ["fragment", "shared"] and not isinstance(op.lowering, Tma)


def with_second_tiles(launch: ir.Launch, found: Sequence[Refilled]) -> ir.Launch:
    """Return the launch in which each of these tiles is two."""
    allocs = {each.tile for each in found}
    owners = {op: each.tile for each in found for op in each.moved}
    made: dict[ir.OpBase, tuple[ir.Value, ir.Value]] = {}

    def rule(op: ir.OpBase, new: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(new, ir.Alloc) and op in allocs:
            first = builder.emit(new).result
            name = f"{first.name or 'tile'}_second"
            made[op] = first, builder.emit(replace(new, hint=name)).result
            return [first]
        if op not in owners:
            return None
        first, second = made[owners[op]]
        (moved,) = clone_block(ir.Block([], [new]), {first: second}).ops
        builder.emit(moved)
        return list(moved.results)

    return with_originals(launch, rule)
