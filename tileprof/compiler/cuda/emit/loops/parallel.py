"""Parallel loops: each point is run by one thread, or by all threads that hold its fragments.

    if (bx * 128 + 127 < n) {     // every access inside: no guards, aligned vectors
      …
    } else {                      // the block at the edge: the same, guarded
      …
    }

With a layout the points of a thread are loops over its registers (`register_loops.py`); without one
the threads of the block stride over all points.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, paren, times
from tileprof.compiler.codegen.hoisting import always, hoisted
from tileprof.compiler.codegen.ranges import Comparison, Sum
from tileprof.compiler.cuda.emit.buffers import FragmentBuffer, LocalBuffer
from tileprof.compiler.cuda.emit.context import Context, EmitBlock
from tileprof.compiler.cuda.layouts import parse_layout
from tileprof.compiler.cuda.passes.expand import as_parallel

from .guards import opened
from .points import Frame
from .register_loops import RegisterLoops


def emit_parallel(ctx: Context, op: ir.Parallel, emit_block: EmitBlock) -> None:
    """The points, once or once without and once with guards."""
    ctx.bound(op)
    if ctx.points is not None:
        _nested(ctx, op, emit_block, 0)
        return
    outside = ctx.inside
    try:
        if op.layout:
            _registers(ctx, op, emit_block)
        else:
            ctx.points = Frame(op, None)
            found, proved = _hoisted(ctx, op)

            def strided() -> None:
                _strided(ctx, op, _point(ctx, op, emit_block))

            _variants(ctx, list(map(str, found)), proved, strided, strided)
    finally:
        ctx.points, ctx.inside = None, outside


def _registers(ctx: Context, op: ir.Parallel, emit_block: EmitBlock) -> None:
    """A loop with a layout.  Where branches keep accesses from being vectors, there is a form for
    blocks all of whose points take them."""
    shape = tuple(int(ctx.index(e)) for e in op.extents)
    layout = parse_layout(op.layout, shape)

    def loops_of(each: ir.Parallel) -> RegisterLoops:
        point = _point(ctx, each, emit_block)
        return RegisterLoops(ctx=ctx, op=each, layout=layout, point=point, emit_block=emit_block)

    general = fast = loops_of(op)
    taken, branches = always(ctx, op, general.planner.branches(), lambda v, s: _wide(ctx, v, s))
    if branches:
        open_ = opened(op, branches)
        _note_uses(ctx, open_.body)
        ctx.bound(open_)
        fast = loops_of(open_)
    # The names of its coordinates stay taken: they stand beside the loops, not inside.
    fast.prepare()
    conditions, proved = _hoisted(ctx, fast.op)

    def slow() -> None:
        if general is not fast:
            general.prepare()
        general.slow()

    needed = dict.fromkeys(map(str, (*taken, *conditions, *fast.conditions())))
    _variants(ctx, list(needed), proved, fast.fast, slow)


def _hoisted(ctx: Context, op: ir.Parallel) -> tuple[list[Comparison], set[ir.OpBase]]:
    return hoisted(ctx, op, lambda v: _shape(ctx, v), lambda v, s: _wide(ctx, v, s))


def _point(ctx: Context, op: ir.Parallel, emit_block: EmitBlock) -> Callable[[], None]:
    """Return what emits one point."""
    buffers = dict(ctx.buffers)

    def point() -> None:
        _private(ctx, op)
        emit_block(ctx, op.body)
        ctx.buffers = dict(buffers)

    return point


def _note_uses(ctx: Context, block: ir.Block) -> None:
    """Ops that were made during emission use their operands, too."""
    for each in ir.walk(block):
        for value in each.operand_values():
            ctx.uses.setdefault(value, []).append(each)


def emit_as_parallel(
    ctx: Context,
    op: ir.Copy,
    emit_block: EmitBlock,
    layout: str = "",
    symbols: Mapping[str, ir.Value] | None = None,
) -> None:
    """A copy that stayed whole until emission, element by element; `layout` is that of its
    fragment."""
    block = ir.Block()
    as_parallel(op, ir.Builder(block, op.span), symbols, layout)
    _note_uses(ctx, block)
    emit_block(ctx, block)


def _variants(
    ctx: Context,
    conditions: list[str],
    proved: set[ir.OpBase],
    fast: Callable[[], None],
    slow: Callable[[], None],
) -> None:
    """`fast`, under the conditions where there are any, else `slow`."""
    outside = ctx.inside
    ctx.inside = outside | proved
    if not conditions:
        # Names given inside end with it.
        with ctx.writer.braces(""), ctx.scope():
            fast()
        return
    ctx.writer.line(f"if ({' && '.join(conditions)}) {{")
    with ctx.writer.deeper(), ctx.scope():
        fast()
    ctx.writer.close("} else {")
    ctx.inside = outside
    with ctx.writer.deeper(), ctx.scope():
        slow()
    ctx.writer.close("}")


def _shape(ctx: Context, value: ir.Value) -> tuple[Extent, ...] | None:
    buffer = ctx.buffers.get(value)
    # An index of a fragment is one of its loop variables.
    return None if buffer is None or isinstance(buffer, FragmentBuffer) else tuple(buffer.shape)


def _wide(ctx: Context, value: ir.Value, bound: Sum) -> Sum:
    """The bound of an index in 64 bits, where the index needs them."""
    if ctx.type_of(value) == "int":
        return bound
    terms = {f"((int64_t){paren(t)})": f for t, f in bound.terms.items()}
    return replace(bound, terms=terms)


# -- loops without a layout


def _strided(ctx: Context, op: ir.Parallel, point: Callable[[], None]) -> None:
    """Threads take points in turn, the last variable fastest."""
    extents = [ctx.index(e) for e in op.extents]
    total: Extent = 1
    for extent in extents:
        total = times(total, extent)
    wide = len(extents) > 1 and not isinstance(total, int)
    kind = "int64_t" if wide else "int"
    if wide:
        total = "(int64_t)" + str(total)
    with ctx.scope():
        name = ctx.names.fresh("e")
        head = f"for ({kind} {name} = tp_thread; {name} < {total}; {name} += {ctx.threads})"
        with ctx.writer.braces(head):
            _unflatten(ctx, op, name, extents)
            point()
            del ctx.point[len(ctx.point) - len(extents) :]


def _unflatten(ctx: Context, op: ir.Parallel, number: str, extents: list[Extent]) -> None:
    """The loop variables from the number of a point."""
    texts: list[str] = []
    left = number
    for dim in reversed(range(len(extents))):
        texts.insert(0, f"{left} % {paren(extents[dim])}" if dim else left)
        left = f"{left} / {paren(extents[dim])}"
    for variable, text in zip(op.body.args, texts, strict=True):
        name = ctx.names.fresh(variable.name or "i")
        ctx.writer.line(f"const int {name} = {text};")
        ctx.values[variable] = name
        ctx.point.append((variable.name or "i", name))


def _nested(ctx: Context, op: ir.Parallel, emit_block: EmitBlock, depth: int) -> None:
    """A parallel loop inside of a point: its thread runs all of it."""
    if depth == len(op.extents):
        emit_block(ctx, op.body)
        return
    variable = op.body.args[depth]
    with ctx.scope():
        name = ctx.names.fresh(variable.name or "ijklmn"[depth % 6])
        ctx.values[variable] = name
        extent = ctx.index(op.extents[depth])
        with ctx.writer.braces(f"for (int {name} = 0; {name} < {extent}; ++{name})"):
            ctx.point.append((variable.name or "i", name))
            _nested(ctx, op, emit_block, depth + 1)
            ctx.point.pop()


# -- local buffers


def _private(ctx: Context, op: ir.Parallel) -> None:
    """Each point has its own copy of the `local` buffers that it writes."""
    own = {o.result for o in ir.walk(op.body) if isinstance(o, ir.Alloc)}
    seen: set[ir.Value] = set()
    for each in ir.walk(op.body):
        if not isinstance(each, ir.Store | ir.Atomic) or each.buffer in own | seen:
            continue
        buffer = ctx.buffers.get(each.buffer)
        if isinstance(buffer, LocalBuffer):
            seen.add(each.buffer)
            ctx.buffers[each.buffer] = _copied(ctx, buffer)


def _copied(ctx: Context, buffer: LocalBuffer) -> LocalBuffer:
    name = ctx.names.fresh(f"{buffer.name}_own")
    if not buffer.shape:
        ctx.writer.line(f"{buffer.type} {name} = {buffer.variable};")
        return replace(buffer, variable=name)
    count = math.prod(buffer.shape)
    ctx.writer.line(f"{buffer.type} {name}[{count}];")
    ctx.writer.line("#pragma unroll")
    ctx.writer.line(f"for (int at = 0; at < {count}; ++at) {name}[at] = {buffer.variable}[at];")
    return replace(buffer, variable=name)
