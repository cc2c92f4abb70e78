"""Single elements: read, written, combined, with the checks that the place of an access needs.

An access that is proved inside is plain.  Otherwise it is guarded; a negative index, and one that
is outside of a shared or local buffer, is noted and fails the launch at its end.
Outside of parallel loops every thread reads, and one thread writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from tileprof import ir
from tileprof.compiler.codegen.access import ATOMICS, bounds, element_place
from tileprof.compiler.codegen.buffers import Extent, paren
from tileprof.compiler.codegen.ranges import fits, saturated
from tileprof.compiler.codegen.types import is_narrow, is_pair, literal, storage, stored, value_type
from tileprof.compiler.cuda.target import ADDED_TOGETHER
from tileprof.errors import InternalError

from .buffers import Buffer, FragmentBuffer, GlobalBuffer, LocalBuffer, SharedBuffer
from .context import Context
from .loops.points import Frame


def emit_load(ctx: Context, op: ir.Load) -> None:
    """`const T x = buffer[…];`, or the expression in place."""
    if ctx.points is not None and op in ctx.points.early:
        _take(ctx, ctx.points, op)
        return
    buffer = ctx.buffer(op.buffer)
    indices, guard = checked(ctx, op, buffer, op.indices, op.in_bounds)
    element = _element(ctx, op, buffer, indices)
    text = f"tp_value({element})" if is_narrow(buffer.dtype) else element
    if guard:
        safe = literal(buffer.safe, buffer.dtype) if isinstance(buffer, GlobalBuffer) else "0"
        ctx.define(op.result, f"{guard} ? {text} : {safe}")
    elif op in ctx.inline:
        ctx.values[op.result] = paren(text) if text.startswith("*") else text
        ctx.raw[op.result] = element
    else:
        ctx.define(op.result, text)


def _take(ctx: Context, frame: Frame, op: ir.Load) -> None:
    """The element was loaded before."""
    held = frame.early[op]
    element = held.element(frame.position)
    ctx.raw[op.result] = element
    if held.values:
        ctx.values[op.result] = held.value(frame.position)
    else:
        ctx.values[op.result] = f"tp_value({element})" if is_narrow(op.result.dtype) else element


def emit_store(ctx: Context, op: ir.Store) -> None:
    """`buffer[…] = x;`."""
    if ctx.points is not None and op in ctx.points.late:
        held = ctx.points.late[op]
        inner = saturated_value(op) if held.values else None
        if inner is not None:
            text = ctx.bare(inner)
        else:
            text = _unrounded(ctx, op.value) if held.values else stored_text(ctx, op.value)
        position = ctx.points.position
        element = held.value(position) if held.values else held.element(position)
        ctx.writer.line(f"{element} = {text};")
        return
    buffer = ctx.buffer(op.buffer)
    indices, guard = checked(ctx, op, buffer, op.indices, op.in_bounds)
    statement = f"{_element(ctx, op, buffer, indices)} = {stored_text(ctx, op.value)};"
    when = " && ".join(p for p in (_alone(ctx, buffer), guard) if p)
    ctx.writer.line(f"if ({when}) {statement}" if when else statement)


def saturated_value(op: ir.OpBase) -> ir.Value | None:
    """The float whose nearest number of 8 bits an op stores; None where it stores anything else."""
    made = op.value.owner if isinstance(op, ir.Store) else None
    return saturated(made.operand, made.dtype) if isinstance(made, ir.Cast) else None


def is_element(op: ir.OpBase | None) -> bool:
    """Whether the op's narrow float is at hand as it lies in memory: it was loaded, or its bits
    were computed."""
    return isinstance(op, ir.Load) or (isinstance(op, ir.Bitcast) and is_narrow(op.dtype))


def converts(op: ir.OpBase) -> bool:
    """Whether the elements of a store or sum are values that are converted together: not where they
    are stored as they were loaded."""
    return isinstance(op, ir.Atomic) or (
        isinstance(op, ir.Store) and not is_element(op.value.owner)
    )


def manner(op: ir.OpBase) -> str:
    """Return how a store's elements of 8 bits are made: of numbers that are surely not too large,
    or of any, the largest where they are; '' where neither is known."""
    made = op.value.owner if isinstance(op, ir.Store) else None
    if not isinstance(made, ir.Cast):
        return ""
    if saturated_value(op) is not None:
        return "saturated"
    return "within" if fits(made.operand, made.dtype) else ""


def stored_text(ctx: Context, value: ir.Value) -> str:
    """A value as an element in memory; one that was an element is not converted there and back."""
    if not is_narrow(value.dtype):
        return ctx.bare(value)
    return ctx.raw.get(value) or stored(ctx.bare(value), value.dtype)


def _unrounded(ctx: Context, value: ir.Value) -> str:
    """A value that will be rounded to its type once more."""
    text = ctx.bare(value)
    inner = text.removeprefix(f"tp_round<{storage(value.dtype)}>")
    return inner[1:-1] if inner != text and is_pair(inner) else text


def emit_atomic(ctx: Context, op: ir.Atomic) -> None:
    """`const T old = tp_atomic<…>(&buffer[…], x);`, done by one thread for each point; or the value
    is kept for the sum of a vector."""
    if ctx.points is not None and op in ctx.points.late:
        held = ctx.points.late[op]
        ctx.writer.line(f"{held.value(ctx.points.position)} = {_unrounded(ctx, op.value)};")
        return
    buffer = ctx.buffer(op.buffer)
    indices, guard = checked(ctx, op, buffer, op.indices, op.in_bounds)
    ctx.headers.add("atomics.cuh")
    private = isinstance(buffer, LocalBuffer | FragmentBuffer)
    # What other threads can see is changed at once.
    function = "tp_combine" if private else "tp_atomic"
    element = _element(ctx, op, buffer, indices)
    value = f"({value_type(buffer.dtype)})({ctx.bare(op.value)})"
    call = f"{function}<{ATOMICS[op.kind]}>(&{element}, {value})".replace("&*", "")
    alone = _alone(ctx, buffer)
    when = " && ".join(p for p in (alone, guard) if p)
    if not ctx.uses.get(op.result):
        if ctx.target.adds_vectors and op.kind == "add" and _is_added_in_pairs(buffer):
            call = f"tp_atomic_add_global(&{element}, {value})"
        ctx.writer.line(f"if ({when}) {call};" if when else f"{call};")
        return
    safe = literal(buffer.safe if isinstance(buffer, GlobalBuffer) else 0, buffer.dtype)
    text = f"{guard} ? {call} : {safe}" if guard else call
    if not alone:
        ctx.define(op.result, text)
    elif ctx.points is None:
        _broadcast(ctx, op.result, text)
    else:
        # Points with such an op are run by their leaders: see `RegisterLoops`.
        raise InternalError(f"{op!r} gives its result to copies of a point")


def _is_added_in_pairs(buffer: Buffer) -> bool:
    """Whether the hardware adds to two elements but not to one, at addresses of whole pairs."""
    return (
        isinstance(buffer, GlobalBuffer)
        and buffer.dtype.name in ADDED_TOGETHER
        and is_narrow(buffer.dtype)
        and buffer.alignment >= 2 * buffer.dtype.bytes
    )


def _broadcast(ctx: Context, result: ir.Value, text: str) -> None:
    """Let what the first thread computes become known to all."""
    kind, name = ctx.type_of(result), ctx.names.fresh("broadcast")
    ctx.headers.add("elementwise.cuh")
    ctx.writer.line(f"TP_SHARED_VARIABLE({kind}, {name});")
    ctx.writer.line(f"if (tp_thread == 0) {name} = {text};")
    ctx.writer.line(ctx.barrier())
    ctx.define(result, name)
    # The next one may come only after everybody has read.
    ctx.writer.line(ctx.barrier())


def _alone(ctx: Context, buffer: Buffer) -> str:
    """The condition under which this thread is the one to change the buffer; '' for always."""
    if isinstance(buffer, LocalBuffer | FragmentBuffer):
        return ""
    return "tp_thread == 0" if ctx.points is None else ctx.points.leader


def _element(
    ctx: Context, op: ir.Load | ir.Store | ir.Atomic, buffer: Buffer, texts: Sequence[Extent]
) -> str:
    if isinstance(buffer, SharedBuffer):
        return f"*{shared_address(ctx, op, buffer, texts)}"
    if not isinstance(buffer, FragmentBuffer):
        return buffer.element(texts)
    frame = ctx.points
    if frame is None and buffer.layout.is_same_everywhere:
        return f"{buffer.array}[0]"
    if frame is None or frame.layout is None:
        raise InternalError(f"fragment {buffer.name} is used outside of points that have a layout")
    return frame.element(buffer, frame.dims(op.indices), texts)


def shared_address(
    ctx: Context, op: ir.OpBase, buffer: SharedBuffer, texts: Sequence[Extent]
) -> str:
    """A pointer to the element of shared memory at `texts`."""
    frame = ctx.points
    if frame is None or op not in frame.addresses:
        return buffer.address(texts)
    return buffer.pointer_at(frame.addresses[op].offset(frame.runs, buffer.lead_offset(texts)))


def checked(
    ctx: Context,
    op: ir.OpBase,
    buffer: Buffer,
    indices: Sequence[ir.Value],
    proved: bool,
) -> tuple[list[Extent], str]:
    """The indices as text, and the condition under which the element is there ('' for always)."""
    texts = [ctx.index(v) for v in indices]
    if proved or op in ctx.inside or not indices or isinstance(buffer, FragmentBuffer):
        return texts, ""
    texts, low, high = bounds(ctx, indices, buffer.shape)
    place = element_place(op, buffer.name, buffer.dims)
    if not isinstance(buffer, GlobalBuffer):
        low, high = low + high, []
    if low:
        ctx.note_unless(" && ".join(low), place, texts)
    return texts, " && ".join(low + high)
