"""From the number of a block to the indices of the author's grid, once or in a loop."""

from __future__ import annotations

from collections.abc import Callable

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, times

from .context import INT32, Context

__all__ = ["emit_indices", "emit_tile_loop"]

EmitBlock = Callable[[Context, ir.Block], None]
GROUP = 8
"""Rows of blocks that are walked together, so that both operands stay in L2."""


def emit_tile_loop(ctx: Context, op: ir.Launch, *, persistent: bool, emit: EmitBlock) -> None:
    """The body of a launch.  A persistent one keeps what it allocates outside of the loop, which
    stands inside of the roles where there are any."""
    if not persistent:
        ctx.writer.line("const int tp_tile = blockIdx.x;")
        emit_indices(ctx, op)
        emit(ctx, op.body)
        return
    held = [o for o in op.body.ops if isinstance(o, ir.Alloc | ir.Ring | ir.Reinterpret)]
    rest = [o for o in op.body.ops if o not in held]
    emit(ctx, ir.Block(list(op.body.args), list(held)))
    roles = [o for o in rest if isinstance(o, ir.Roles)]

    def looped(inner: Context, block: ir.Block) -> None:
        total = _total(inner, op)
        head = f"for (int tp_tile = blockIdx.x; tp_tile < {total}; tp_tile += gridDim.x)"
        with inner.writer.braces(head), inner.scope():
            emit_indices(inner, op)
            emit(inner, block)

    if roles:
        from .rings import emit_roles

        before = rest[: rest.index(roles[0])]
        emit(ctx, ir.Block([], before))
        emit_roles(ctx, roles[0], looped)
    else:
        looped(ctx, ir.Block([], rest))


def _total(ctx: Context, op: ir.Launch) -> Extent:
    total: Extent = 1
    for value in op.grid:
        total = times(total, ctx.index(value))
    return total


def emit_indices(ctx: Context, op: ir.Launch) -> None:
    """`bx`, `by`, `bz` of tile `tp_tile`, the first axis fastest; with the hint `raster` in groups
    of rows, so that blocks that run together share operands in L2."""
    extents = [ctx.index(g) for g in op.grid]
    for variable, extent in zip(op.body.args, extents, strict=True):
        ctx.known[variable] = (0, extent - 1 if isinstance(extent, int) else INT32 - 1)
    names = [ctx.names.fresh(v.name or "b" + "xyz"[axis]) for axis, v in enumerate(op.body.args)]
    for variable, name in zip(op.body.args, names):
        ctx.values[variable] = name
    group = int(dict(op.hints).get("raster", 0))
    if group and len(extents) >= 2:
        _grouped(ctx, names, extents, group)
        return
    left = "tp_tile"
    for axis, (name, extent) in enumerate(zip(names, extents, strict=True)):
        last = axis == len(names) - 1
        text = left if last or extent == 1 else f"{paren(left)} % {paren(extent)}"
        if extent == 1 and not last:
            text = "0"
        ctx.writer.line(f"const int {name} = {text};")
        if not last and extent != 1:
            left = f"{left} / {paren(extent)}"


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
    wide = times(columns, group)
    line(f"const int tp_group = {inner} / {paren(wide)};")
    line(f"const int tp_within = {inner} % {paren(wide)};")
    line(f"const int tp_rows = tp_min<int>({rows} - tp_group * {group}, {group});")
    line(f"const int {names[0]} = tp_within / tp_rows;")
    line(f"const int {names[1]} = tp_group * {group} + tp_within % tp_rows;")
