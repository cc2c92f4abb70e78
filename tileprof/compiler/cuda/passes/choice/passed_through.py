"""Tiles that pass through shared memory although no asynchronous copy can bring them there.

    copy X[…] (bfloat16), %s (float32)           copy X[…] (bfloat16), %f (float32)
    copy %s, %f                            ⇒

A copy that converts is done by loads and stores of threads.  Where its tile is only copied on to a
fragment, threads load what they hold of it themselves: no barrier and no trip through shared memory
is left.  In: a launch as its author wrote it.  Out: the launch without such tiles.
"""

from __future__ import annotations

from collections.abc import Iterator

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.ir.memory import base
from tileprof.ir.rewriter import with_originals
from tileprof.remarks.copies import PassedThrough


def take_out_passed(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with converted tiles copied to where they are used."""
    multiplied = {
        base(v) for o in ir.walk(launch.body) if isinstance(o, ir.Gemm) for v in (o.a, o.b, o.c)
    }
    found = {
        first: second
        for first, second in _pairs(launch.body)
        if second.target not in multiplied and _is_only_for(launch, first.target, first, second)
    }
    if not found:
        return launch
    gone = {*found.values()}

    tiles = {first.target for first in found}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        if isinstance(before, ir.Alloc) and before.result in tiles:
            return [op.results[0]]
        if isinstance(before, ir.Copy) and before in found:
            return []
        if isinstance(op, ir.Copy) and before in gone:
            first = next(f for f, s in found.items() if s is before)
            builder.emit(ir.Copy(mapping.get(first.source, first.source), op.target, first.hints))
            return []
        return None

    for first in found:
        lowering.remarks.add("buffer", first.target.name, first.span, PassedThrough())
    mapping: dict[ir.Value, ir.Value] = {}
    return with_originals(launch, rule, mapping)


def _pairs(block: ir.Block) -> Iterator[tuple[ir.Copy, ir.Copy]]:
    """Yield copies from global to shared memory that convert, each with the copy right behind it
    that takes the whole tile on to a fragment."""
    before: ir.Copy | None = None
    for op in block.ops:
        for inner in op.blocks():
            yield from _pairs(inner)
        if isinstance(op, ir.Copy):
            if before is not None and _goes_on(before, op):
                yield before, op
            before = op
        elif list(op.all_accesses()) or any(True for _ in op.blocks()):
            before = None


def _goes_on(first: ir.Copy, second: ir.Copy) -> bool:
    tile = first.target
    return (
        first.source.buffer.space == "global"
        and tile.buffer.space == "shared"
        and first.source.dtype != tile.dtype
        and second.source is tile
        and second.target.buffer.space == "fragment"
        and second.target.dtype == tile.dtype
        and isinstance(tile.owner, ir.Alloc)
        and isinstance(second.target.owner, ir.Alloc)
    )


def _is_only_for(launch: ir.Launch, tile: ir.Value, *copies: ir.OpBase) -> bool:
    """Return whether nothing but these ops uses a tile."""
    return all(op in copies for op in ir.walk(launch.body) if tile in op.operand_values())
