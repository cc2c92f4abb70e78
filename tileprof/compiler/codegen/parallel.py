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

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tileprof import ir

from .buffers import Buffer, Extent, paren
from .context import Context
from .expressions import is_pure, render
from .fusion import Mirror
from .ranges import Ends, Sum, ends

__all__ = ["emit_parallel"]

EmitBlock = Callable[[Context, ir.Block], None]
_Access = ir.Load | ir.Store | ir.Atomic


@dataclass
class _Nest:
    """The variables of a nest with their ends, and the accesses inside."""

    box: dict[ir.Value, Ends] = field(default_factory=dict)
    defined: set[ir.Value] = field(default_factory=set)
    """Everything that is computed inside."""
    accesses: list[_Access] = field(default_factory=list)


def emit_parallel(
    ctx: Context,
    op: ir.Parallel,
    emit_block: EmitBlock,
    mirror: Mirror | None = None,
    copy: Callable[[], None] = lambda: None,
) -> None:
    """The nest once, or once without and once with guards; with `mirror`, the first one does the
    work of `copy`."""
    for variable, extent in zip(op.body.args, op.extents, strict=True):
        high = ctx.interval(extent)[1]
        ctx.known[variable] = (0, None if high is None else high - 1)
    conditions, proved = _hoisted(ctx, op)
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
    count = 1
    for extent in buffer.shape:
        count *= int(extent)
    ctx.writer.line(f"{buffer.type} {name}[{count}];")
    ctx.writer.line(f"tp_copy_row({name}, 1, {buffer.pointer}, 1, {count});")
    return replace(buffer, pointer=name)


# -- conditions


def _hoisted(ctx: Context, op: ir.Parallel) -> tuple[list[str], set[ir.OpBase]]:
    """Conditions under which the accesses of the set are inside; none where they always are."""
    nest = _Nest()
    for variable, extent in zip(op.body.args, op.extents, strict=True):
        nest.box[variable] = (Sum(), _sum(ctx.index(extent)).plus(Sum(-1)))
    _survey(ctx, op.body, nest)
    conditions: dict[str, None] = {}
    proved: set[ir.OpBase] = set()
    for access in nest.accesses:
        needed = _inside(ctx, nest, access)
        if needed is not None:
            proved.add(access)
            conditions.update(dict.fromkeys(needed))
    return list(conditions), proved


def _survey(ctx: Context, block: ir.Block, nest: _Nest) -> None:
    nest.defined |= set(block.args)
    for op in block.ops:
        nest.defined |= set(op.results)
        if isinstance(op, ir.Load | ir.Store | ir.Atomic) and not op.in_bounds and op.indices:
            nest.accesses.append(op)
        if isinstance(op, ir.For):
            _add_loop(ctx, op, nest)
        for inner in op.blocks():
            _survey(ctx, inner, nest)


def _add_loop(ctx: Context, op: ir.For, nest: _Nest) -> None:
    """A loop inside the nest whose range does not depend on the point is one more dimension."""
    step = op.step.owner
    fixed = not {op.start, op.stop} & nest.defined or all(
        isinstance(v.owner, ir.Constant) for v in (op.start, op.stop)
    )
    if fixed and isinstance(step, ir.Constant) and step.value > 0:
        low, high = _outer_text(ctx, op.start, nest), _outer_text(ctx, op.stop, nest)
        if low is not None and high is not None:
            nest.box[op.body.args[0]] = (_sum(low), _sum(high).plus(Sum(-1)))


def _outer_text(ctx: Context, value: ir.Value, nest: _Nest) -> Extent | None:
    """A value as text in front of the nest: from outside, or computed inside from such."""
    owner = value.owner
    if isinstance(owner, ir.Constant):
        return int(owner.value)
    if value not in nest.defined:
        return ctx.values.get(value)
    if owner is None or not is_pure(owner):
        return None
    parts = [_outer_text(ctx, v, nest) for v in owner.operand_values()]
    if any(p is None for p in parts):
        return None
    return render(owner, [paren(str(p)) for p in parts])


def _inside(ctx: Context, nest: _Nest, access: _Access) -> list[str] | None:
    """What must hold so that the access is inside at every point; None where it cannot be said."""
    buffer = ctx.buffers.get(access.buffer)
    if buffer is None:
        buffer = _own_buffer(access.buffer)
        if buffer is None:
            return None
    needed: list[str] = []
    for value, extent in zip(access.indices, buffer.shape, strict=True):
        low, high = ctx.interval(value)
        above = low is not None and low >= 0
        below = high is not None and isinstance(extent, int) and high < extent
        if above and below:
            continue
        found = ends(value, lambda v: _find(ctx, nest, v))
        if found is None:
            return None
        if not above:
            if not found[0].terms and found[0].constant < 0:
                return None
            if found[0].terms:
                needed.append(f"{found[0]} >= 0")
        if not below:
            # Where the extent is part of the sum, as in `n - 1 < n`, only a number is left.
            over = found[1].plus(_sum(extent), -1)
            if not over.terms and over.constant >= 0:
                return None
            if over.terms:
                needed.append(f"{found[1]} < {paren(extent)}")
    return needed


def _own_buffer(value: ir.Value) -> Buffer | None:
    """A buffer that the body allocates itself: all that is needed here is its shape."""
    owner = value.owner
    if not isinstance(owner, ir.Alloc):
        return None
    return Buffer("", owner.dtype, owner.space, owner.shape, (), "", owner.shape)


def _find(ctx: Context, nest: _Nest, value: ir.Value) -> Ends | None:
    if value in nest.box:
        return nest.box[value]
    owner = value.owner
    sum_inside = (
        value in nest.defined
        and isinstance(owner, ir.Binary)
        and owner.kind in ("add", "sub", "mul")
    )
    if not sum_inside and (text := _outer_text(ctx, value, nest)) is not None:
        return _sum(text), _sum(text)
    low, high = ctx.interval(value)
    return None if sum_inside or low is None or high is None else (Sum(low), Sum(high))


def _sum(text: Extent) -> Sum:
    return Sum(text) if isinstance(text, int) else Sum(0, {text: 1})
