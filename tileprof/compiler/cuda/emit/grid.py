"""From the number of a block to the indices of the author's grid; the number of its next tile."""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, times
from tileprof.compiler.cuda.passes.multicast import cluster_of, in_clusters

from .context import INT32, Context

COUNTER = "tiles_taken"
"""The parameter of a function whose blocks take tiles when they are free."""


def emit_indices(ctx: Context, op: ir.Launch) -> None:
    """`bx`, `by`, `bz` of tile `tp_tile`, the first axis fastest.  Where the schedule has a
    `raster`, tiles are walked in groups of so many rows: blocks that run together then share
    operands in L2.  The blocks of a cluster take neighbouring tiles along its axis."""
    extents = [ctx.index(g) for g in op.grid]
    for variable, extent in zip(op.body.args, op.grid, strict=True):
        # As few tiles of 64 as extents of 31 bits have: `bx * 64` then fits, too.
        ctx.known[variable] = (0, min(ctx.interval(extent)[1] or INT32, INT32) - 1)
    if not any(ctx.uses.get(v) for v in op.body.args):
        return
    names = [ctx.names.fresh(v.name or "b" + "xyz"[axis]) for axis, v in enumerate(op.body.args)]
    for variable, name in zip(op.body.args, names):
        ctx.values[variable] = name
    cluster = cluster_of(op)
    if cluster.size == 1:
        # Unsigned, as a number of a block is: a quotient by a power of two is then one shift.
        ctx.writer.line("const unsigned tp_tile = blockIdx.x;")
        _walk(ctx, names, extents, op.schedule.raster)
        return
    name, size = names[cluster.axis], cluster.size
    names[cluster.axis] = ctx.names.fresh(f"{name}_cluster")
    extents[cluster.axis], group = in_clusters(op)
    ctx.writer.line(f"const unsigned tp_tile = blockIdx.x / {size};")
    _walk(ctx, names, extents, group)
    ctx.writer.line(f"const int {name} = {names[cluster.axis]} * {size} + tp_cluster_rank();")


def takes_tiles(op: ir.Launch) -> bool:
    """Whether the blocks of a launch share a counter of tiles."""
    return any(isinstance(o, ir.NextTile) for o in ir.walk(op.body))


def emit_next_tile(ctx: Context, op: ir.NextTile) -> None:
    """The next tile that no block has taken; the counter starts at the tiles that blocks begin
    with."""
    ctx.headers.add("tiles.cuh")
    ctx.known[op.result] = (0, INT32 - 1)
    ctx.define(op.result, f"tp_next_tile({COUNTER}, {ctx.bare(op.total)})")


def _walk(ctx: Context, names: list[str], extents: list[Extent], group: int) -> None:
    """The indices `names` of tile `tp_tile` of a grid."""
    if group and len(extents) >= 2:
        _grouped(ctx, names, extents, group)
        return
    left = "tp_tile"
    for axis, (name, extent) in enumerate(zip(names, extents, strict=True)):
        last = axis == len(names) - 1
        by = _divisor(extent)
        text = left if last or extent == 1 else f"{paren(left)} % {by}"
        if extent == 1 and not last:
            text = "0"
        ctx.writer.line(f"const int {name} = {text};")
        if not last and extent != 1:
            left = f"{left} / {by}"


def _divisor(extent: Extent) -> str:
    """An extent by which the number of a tile is divided: without signs a division by what only the
    launch knows takes half of the instructions."""
    return paren(extent) if isinstance(extent, int) else f"(unsigned){paren(extent)}"


def _grouped(ctx: Context, names: list[str], extents: list[Extent], group: int) -> None:
    """Walk `group` rows of the second axis down before the next column of the first."""
    ctx.headers.add("base.cuh")
    columns, rows = extents[0], extents[1]
    plane = times(columns, rows)
    line = ctx.writer.line
    inner = "tp_tile"
    if len(names) > 2:
        line(f"const int {names[2]} = tp_tile / {paren(plane)};")
        inner = f"(tp_tile % {paren(plane)})"
    if isinstance(rows, int) and rows <= group:
        line(f"const int {names[0]} = {inner} / {rows};")
        line(f"const int {names[1]} = {inner} % {rows};")
        return
    wide = times(columns, group)
    line(f"const int tp_group = {inner} / {paren(wide)};")
    line(f"const unsigned tp_inside = {inner} % {paren(wide)};")
    height: Extent = group
    if not isinstance(rows, int) or rows % group:
        line(f"const int tp_rows = tp_min<int>({rows} - tp_group * {group}, {group});")
        height = "tp_rows"
    line(f"const int {names[0]} = tp_inside / {height};")
    line(f"const int {names[1]} = tp_group * {group} + tp_inside % {height};")
