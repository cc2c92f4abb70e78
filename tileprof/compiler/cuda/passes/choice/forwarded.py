"""Elements of a copied tile, read from the tensor that they were copied from.

    copy Mask[bx, 0 …], %row                     copy Mask[bx, 0 …], %row
    for k (pipelined)                      ⇒     for k (pipelined)
      %v = load %row, [k]                          %v = load Mask, [bx, k]

What is loaded from global memory that nobody writes, a producer can compute by itself: loops and
branches that follow from it then run ahead.  In: a launch as its author wrote it.  Out: the launch,
in which such elements decide over loads; the copy stays for whatever else reads it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tileprof import ir
from tileprof.compiler.cuda.lowering import Lowering
from tileprof.compiler.cuda.passes.pipeline.roles import loads_of_iteration, written_globals
from tileprof.ir.memory import base
from tileprof.ir.rewriter import with_originals


def forward_elements(launch: ir.Launch, lowering: Lowering) -> ir.Launch:
    """Return the launch with single elements of copied tiles read from where the tiles come from,
    where a pipelined loop has loads in branches."""
    if not any(_has_branch(o) for o in ir.walk(launch.body)):
        return launch
    found = _tiles(launch, written_globals(launch, aliased=lowering.aliased))
    loads = {
        o: found[o.buffer]
        for o in _outside_points(launch.body)
        if isinstance(o, ir.Load) and o.buffer in found
    }
    if not loads:
        return launch
    uses = Counter(v for o in ir.walk(launch.body) for v in o.operand_values())
    read = Counter(load.buffer for load in loads)
    # The tile is used by the copy, and by what is read elsewhere now.
    gone = {tile for tile in read if uses[tile] == read[tile] + 1}
    mapping: dict[ir.Value, ir.Value] = {}

    def rule(before: ir.OpBase, op: ir.OpBase, builder: ir.Builder) -> list[ir.Value] | None:
        match before, op:
            case ir.Load(), ir.Load() if before in loads:
                copy = loads[before]
                source = mapping.get(copy.source, copy.source)
                return [_element(source, copy.target, op, builder)]
            case ir.Copy(), _ if before.target in gone:
                return []
        return None

    return with_originals(launch, rule, mapping)


def _has_branch(op: ir.OpBase) -> bool:
    """Whether a pipelined loop has loads in a branch."""
    if not isinstance(op, ir.For) or op.kind != "pipelined":
        return False
    return any(copy not in op.body.ops for copy in loads_of_iteration(op))


def _tiles(launch: ir.Launch, written: set[ir.Value]) -> dict[ir.Value, ir.Copy]:
    """The tiles that one copy of the launch's own block fills as a whole, from memory that nobody
    writes, before anything reads them; each with that copy."""
    writes = Counter(base(t.value) for o in ir.walk(launch.body) for t in o.accesses() if t.writes)
    used: set[ir.Value] = set()
    found: dict[ir.Value, ir.Copy] = {}
    for op in launch.body.ops:
        if isinstance(op, ir.Copy) and isinstance(op.target.owner, ir.Alloc):
            held = base(op.source)
            kept = held.buffer.space == "global" and held not in written
            if kept and writes[op.target] == 1 and op.target not in used and _is_plain(op):
                found[op.target] = op
        used.update(op.all_operand_values())
    return found


def _outside_points(block: ir.Block) -> Iterator[ir.OpBase]:
    """Yield the ops of a block that all threads run alike."""
    for op in block.ops:
        yield op
        if not isinstance(op, ir.Parallel):
            for inner in op.blocks():
                yield from _outside_points(inner)


def _is_plain(op: ir.Copy) -> bool:
    """Whether elements have one type on both sides, and one place each in a tensor."""
    view = op.source.owner
    whole = view.base if isinstance(view, ir.View) else op.source
    direct = not isinstance(whole.owner, ir.View | ir.Reinterpret)
    return (
        direct
        and op.source.dtype == op.target.dtype
        and ir.squeeze(op.source) == ir.squeeze(op.target)
    )


def _element(source: ir.Value, tile: ir.Value, load: ir.Load, builder: ir.Builder) -> ir.Value:
    """The element of the tensor that was copied to where `load` reads the tile."""
    pairs = zip(load.indices, tile.buffer.shape, strict=True)
    left = iter([index for index, extent in pairs if extent != 1])
    zero = builder.constant(0)
    places = [zero if d == 1 else next(left) for d in source.buffer.shape]
    view = source.owner
    if not isinstance(view, ir.View):
        return builder.emit(ir.Load(source, places, load.in_bounds)).result
    moved = [
        offset if place is zero else builder.emit(ir.Binary("add", offset, place)).result
        for offset, place in zip(view.offsets, places, strict=True)
    ]
    inside = view.in_bounds and load.in_bounds
    return builder.emit(ir.Load(view.base, moved, inside)).result
