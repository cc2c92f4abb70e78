"""`parallel` as a nest of loops whose innermost one vectorises.

    if (bx * 128 + 127 < n) {          // every access inside: plain loops
      for (i …) y[bx * 128 + i] = …;
    } else {                           // the block at the edge: the same loops, guarded
      for (i …) if (bx * 128 + i < n) y[bx * 128 + i] = …;
    }

An index that is a sum of loop variables and of values from outside is hoisted: its extremes over
the whole nest are compared once.  What cannot be hoisted stays checked at each point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from tileprof import ir

from .buffers import Buffer
from .context import Context
from .fusion import Mirror
from .hoisting import hoisted

EmitBlock = Callable[[Context, ir.Block], None]


def emit_parallel(
    ctx: Context,
    op: ir.Parallel,
    emit_block: EmitBlock,
    mirror: Mirror | None = None,
    copy: Callable[[], None] = lambda: None,
) -> None:
    """The nest once, or once without and once with guards; with `mirror`, the first one does the
    work of `copy`."""
    ctx.bound(op)
    buffers = ctx.buffers
    found, proved = hoisted(ctx, op, lambda v: buffers[v].shape if v in buffers else None)
    conditions = list(map(str, found))
    outside, always = ctx.inside, not conditions
    if mirror is not None:
        target = ctx.tile(mirror.copy.target)
        conditions += mirror.conditions(ctx, target)
        ctx.mirrors[mirror.store] = (mirror, target)
    ctx.inside = outside | proved
    if not conditions:
        _loops(ctx, op, emit_block)
    else:
        ctx.writer.line(f"if ({' && '.join(conditions)}) {{")
        with ctx.writer.deeper():
            _loops(ctx, op, emit_block)
        ctx.writer.close("} else {")
        ctx.inside = outside | proved if always else outside
        if mirror is not None:
            del ctx.mirrors[mirror.store]
        with ctx.writer.deeper():
            _loops(ctx, op, emit_block)
            copy()
        ctx.writer.close("}")
    ctx.inside = outside


def _loops(ctx: Context, op: ir.Parallel, emit_block: EmitBlock) -> None:
    shared = dict(ctx.buffers)
    ctx.writer.location = op.span or ctx.writer.location
    with ctx.scope():
        _open(ctx, op, 0, emit_block)
    ctx.buffers = shared


def _open(ctx: Context, op: ir.Parallel, depth: int, emit_block: EmitBlock) -> None:
    if depth == len(op.extents):
        _private(ctx, op)
        emit_block(ctx, op.body)
        return
    variable = op.body.args[depth]
    name = ctx.names.fresh(variable.name or "ijklmn"[depth % 6])
    ctx.values[variable] = name
    innermost = depth == len(op.extents) - 1
    pragma = "TP_INDEPENDENT " if innermost and _independent(op.body) else ""
    extent = ctx.index(op.extents[depth])
    with ctx.writer.braces(f"{pragma}for (int64_t {name} = 0; {name} < {extent}; ++{name})"):
        ctx.point.append((variable.name or "i", name))
        _open(ctx, op, depth + 1, emit_block)
        ctx.point.pop()


def _independent(block: ir.Block) -> bool:
    # Points may combine into one element by atomics, and prints keep their order.
    return not any(isinstance(o, ir.Atomic | ir.Print) for o in ir.walk(block))


def _private(ctx: Context, op: ir.Parallel) -> None:
    """Each point has its own copy of the `local` buffers that it writes."""
    own = {o.result for o in ir.walk(op.body) if isinstance(o, ir.Alloc)}
    seen: set[Buffer] = set()
    for each in ir.walk(op.body):
        if not isinstance(each, ir.Store | ir.Atomic) or each.buffer in own:
            continue
        buffer = ctx.buffers.get(each.buffer)
        if buffer is None or buffer.space != "local" or buffer in seen:
            continue
        copy = _copied(ctx, buffer)
        seen |= {buffer, copy}
        ctx.buffers[each.buffer] = copy


def _copied(ctx: Context, buffer: Buffer) -> Buffer:
    name = ctx.names.fresh(f"{buffer.name}_own")
    if buffer.variable:
        ctx.writer.line(f"{buffer.type} {name} = {buffer.variable};")
        return replace(buffer, pointer=f"&{name}", variable=name)
    count = math.prod(int(extent) for extent in buffer.shape)
    ctx.writer.line(f"{buffer.type} {name}[{count}];")
    ctx.writer.line(f"tp_copy_row({name}, 1, {buffer.pointer}, 1, {count});")
    return replace(buffer, pointer=name)
