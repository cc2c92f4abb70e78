"""Reading and writing single elements, with the checks that the place of an access needs.

An access that is proved inside (`in_bounds`, or by a condition around the loop) is a plain C++
access.  Otherwise a global one is guarded and its negative indices stop the launch; one outside a
shared, fragment or local buffer stops the launch.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir

from .buffers import Buffer, Extent, paren
from .context import Context, Place
from .types import is_narrow, literal, stored, value_type
from .values import Values

ATOMICS = {
    "add": "TpAdd",
    "max": "TpLarger",
    "min": "TpSmaller",
    "and": "TpAnd",
    "or": "TpOr",
    "xor": "TpXor",
    "exchange": "TpExchange",
}
"""The struct of the prelude that combines two elements, by the kind of an atomic."""


def emit_load(ctx: Context, op: ir.Load) -> None:
    """`const T x = buffer[…];`, or the expression in place."""
    buffer = ctx.buffer(op.buffer)
    indices, guard = _checked(ctx, op, buffer, op.indices, op.in_bounds)
    text = _read(buffer, buffer.element(indices))
    if guard:
        ctx.define(op.result, f"{guard} ? {text} : {literal(buffer.safe, buffer.dtype)}")
    elif op in ctx.inline:
        ctx.values[op.result] = text
    else:
        ctx.define(op.result, text)


def emit_store(ctx: Context, op: ir.Store) -> None:
    """`buffer[…] = x;`."""
    buffer = ctx.buffer(op.buffer)
    indices, guard = _checked(ctx, op, buffer, op.indices, op.in_bounds)
    value = ctx.bare(op.value)
    value = stored(value, buffer.dtype) if is_narrow(buffer.dtype) else value
    if op in ctx.mirrors:
        mirror, target = ctx.mirrors[op]
        also = mirror.element(ctx, target)
        value = f"{also} = {value}" if mirror.keep else value
        ctx.writer.line(f"{buffer.element(indices) if mirror.keep else also} = {value};")
        return
    when = f"if ({guard}) " if guard else ""
    ctx.writer.line(f"{when}{buffer.element(indices)} = {value};")


def emit_atomic(ctx: Context, op: ir.Atomic) -> None:
    """`const T old = tp_atomic<…>(&buffer[…], x);`."""
    ctx.headers.add("atomics.h")
    buffer = ctx.buffer(op.buffer)
    indices, guard = _checked(ctx, op, buffer, op.indices, op.in_bounds)
    # Only the caller's memory is seen by several blocks; a block is the work of one thread.
    function = "tp_atomic" if buffer.is_global else "tp_combine"
    value = f"({value_type(buffer.dtype)})({ctx.bare(op.value)})"
    call = f"{function}<{ATOMICS[op.kind]}>(&{buffer.element(indices)}, {value})"
    if ctx.uses.get(op.result):
        ctx.define(
            op.result, f"{guard} ? {call} : {literal(buffer.safe, buffer.dtype)}" if guard else call
        )
    else:
        ctx.writer.line(f"if ({guard}) {call};" if guard else f"{call};")


def _read(buffer: Buffer, element: str) -> str:
    return f"tp_value({element})" if is_narrow(buffer.dtype) else element


def _checked(
    ctx: Context,
    op: ir.OpBase,
    buffer: Buffer,
    indices: Sequence[ir.Value],
    proved: bool,
) -> tuple[list[Extent], str]:
    """The indices as text, and the condition under which the element is there ('' for always)."""
    texts = [ctx.index(v) for v in indices]
    if proved or op in ctx.inside or not indices:
        return texts, ""
    texts, low, high = bounds(ctx, indices, buffer.shape)
    place = element_place(op, buffer.name, buffer.dims)
    if not buffer.is_global:
        if low or high:
            ctx.fail_unless(" && ".join(low + high), place, texts)
        return texts, ""
    if low:
        ctx.fail_unless(" && ".join(low), place, texts)
    return texts, " && ".join(high)


def bounds(
    ctx: Values, indices: Sequence[ir.Value], shape: Sequence[Extent]
) -> tuple[list[Extent], list[str], list[str]]:
    """The indices as text, and what of `0 <= index` and of `index < extent` is not known."""
    texts = [_named(ctx, v) for v in indices]
    low, high = [], []
    for value, text, extent in zip(indices, texts, shape, strict=True):
        known_low, known_high = ctx.interval(value)
        if known_low is None or known_low < 0:
            low.append(f"{text} >= 0")
        if not isinstance(extent, int) or known_high is None or known_high >= extent:
            high.append(f"{text} < {paren(extent)}")
    return texts, low, high


def _named(ctx: Values, value: ir.Value) -> Extent:
    """A name for an index that is written several times."""
    text = ctx.index(value)
    if isinstance(text, int) or text.isidentifier():
        return text
    name = ctx.names.fresh("at")
    ctx.writer.line(f"const {ctx.type_of(value)} {name} = {text};")
    return name


def element_place(op: ir.OpBase, buffer: str, dims: tuple[ir.Dim, ...]) -> Place:
    """The place of an access that may be outside of the buffer."""
    access = "read" if isinstance(op, ir.Load | ir.AsyncCopy) else "written"
    return Place("element", op.span, "", buffer, dims, len(dims), access)
