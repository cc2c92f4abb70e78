"""Ops as C++ statements: element accesses, loops and branches; tile ops are in `tiles.py`."""

from __future__ import annotations

import math
from typing import assert_never, cast

from tileprof import ir
from tileprof.errors import InternalError

from . import tiles
from .access import emit_atomic, emit_load, emit_store
from .branches import emit_if, emit_while
from .buffers import Buffer, compared, reshaped, row_major
from .context import Context, Place
from .expressions import bare, needs_functions, render
from .fusion import Mirror, find_mirror
from .inlining import flat, inlined
from .parallel import emit_parallel
from .types import storage, value_type

STACK_LIMIT = 4096
"""Bytes of a `local` array that still lie on the stack."""
UNROLL_LIMIT = 16


def emit_block(ctx: Context, block: ir.Block, *, outermost: bool = False) -> None:
    """The ops of a block, one after another; `outermost`: it is the body of a launch."""
    ops = flat(block)
    ctx.inline |= inlined(ops, ctx.uses)
    done: set[ir.OpBase] = set()
    for at, op in enumerate(ops):
        if op in done:
            continue
        if op.span is not None:
            ctx.writer.location = op.span
        mirror = find_mirror(ctx, ops, at, outermost=outermost)
        if mirror is None:
            emit_op(ctx, op)
        else:
            _mirrored(ctx, op, mirror, goes_on=not outermost or ops[-1] is not mirror.copy)
            done |= {mirror.copy, *mirror.between}


def _mirrored(ctx: Context, op: ir.OpBase, mirror: Mirror, *, goes_on: bool) -> None:
    """A loop that copies what it makes on the way; `goes_on`: something is run after it."""
    assert isinstance(op, ir.Parallel)
    marks = [each for each in mirror.between if isinstance(each, ir.Mark)]
    for each in mirror.between:
        if each not in marks:
            emit_op(ctx, each)

    def copy() -> None:
        ctx.writer.location = mirror.copy.span or ctx.writer.location
        tiles.emit_tile_op(ctx, mirror.copy)

    emit_parallel(ctx, op, emit_block, mirror, copy)
    # What is run behind is in the copy's state; the time of both is the loop's.
    for each in marks if goes_on else ():
        emit_op(ctx, each)


def emit_op(ctx: Context, op_: ir.OpBase) -> None:
    """One op."""
    if isinstance(op_, ir.Mark):
        ctx.headers.add("marks.h")
        ctx.writer.line(f"tp_mark(worker, {op_.state});")
        return
    op = cast(ir.Op, op_)
    match op:
        case ir.Constant() | ir.View():
            pass  # stand where they are used
        case _ if isinstance(op, ir.ScalarOp):
            _scalar(ctx, op)
        case ir.Alloc():
            _alloc(ctx, op)
        case ir.Reinterpret():
            _reinterpret(ctx, op)
        case ir.Load():
            emit_load(ctx, op)
        case ir.Store():
            emit_store(ctx, op)
        case ir.Atomic():
            emit_atomic(ctx, op)
        case _ if isinstance(op, ir.TileOp):
            tiles.emit_tile_op(ctx, op)
        case ir.For():
            _for(ctx, op)
        case ir.Parallel():
            emit_parallel(ctx, op, emit_block)
        case ir.While():
            emit_while(ctx, op, emit_block)
        case ir.If():
            if not _ternary(ctx, op):
                emit_if(ctx, op, emit_block)
        case ir.Break():
            ctx.writer.line("break;")
        case ir.Continue():
            ctx.writer.line("continue;")
        case ir.Print():
            _print(ctx, op)
        case ir.Assert():
            place = Place("assert", op.span, op.message)
            ctx.fail_unless(ctx.bare(op.condition), place, [])
        case ir.Record():
            ctx.headers.add("measure.h")
            ctx.writer.line(f"tp_record(worker, {op.site} * 2 + {int(op.edge == 'end')});")
        case ir.Annotate():
            pass  # a wish about caches that this backend has no use for
        case ir.Yield():
            pass  # taken by the op that holds the block
        case ir.Launch() | ir.Scope():
            raise InternalError(f"{op!r} is not emitted on its own")
        case _:
            assert_never(op)


def _scalar(ctx: Context, op: ir.OpBase) -> None:
    if needs_functions(op):
        ctx.headers.add("functions.h")
    text = render(op, [ctx.text(v) for v in op.operand_values()])
    if op in ctx.inline:
        ctx.values[op.result] = text
    else:
        ctx.define(op.result, bare(text))


def _alloc(ctx: Context, op: ir.Alloc) -> None:
    name = ctx.names.fresh(op.result.name or op.space)
    type_ = storage(op.dtype)
    shape: tuple[int | str, ...] = op.shape
    variable = ""
    if op.space == "local" and not op.shape:
        variable = name
        ctx.writer.line(f"{type_} {name}{{}};")
    elif op in ctx.arena:
        at = f"__builtin_assume_aligned(worker->arena + {ctx.arena[op]}, 64)"
        at = at.replace(" + 0,", ",")
        ctx.writer.line(f"{type_} *const {name} = ({type_} *){at};")
    else:
        count = math.prod(op.shape)
        ctx.writer.line(f"{type_} {name}[{count}] __attribute__((aligned(64)));")
    pointer = f"&{name}" if variable else name
    ctx.buffers[op.result] = Buffer(
        pointer,
        op.dtype,
        op.space,
        shape,
        row_major(shape),
        op.result.name or op.space,
        op.shape,
        variable=variable,
    )


def _reinterpret(ctx: Context, op: ir.Reinterpret) -> None:
    base = ctx.buffer(op.base)
    name = ctx.names.fresh(op.result.name or base.name)
    type_ = storage(op.dtype)
    ctx.writer.line(f"{type_} *const {name} = ({type_} *)({base.pointer});")
    ctx.buffers[op.result] = reshaped(base, name, op.dtype, ctx.extents(op.shape))


# -- loops and branches


def _for(ctx: Context, op: ir.For) -> None:
    (variable,) = op.body.args
    start = ctx.index(op.start)
    stop, step = compared(ctx.index(op.stop)), compared(ctx.index(op.step))
    low, high = ctx.interval(op.start)[0], ctx.interval(op.stop)[1]
    ctx.known[variable] = (low, None)
    if isinstance(step, int):
        if step == 0:
            _check_step(ctx, op)
        compare = f"< {stop}" if step > 0 else f"> {stop}"
        forward = {1: "++{}", -1: "--{}"}.get(step, f"{{}} += {step}")
        if step > 0:
            ctx.known[variable] = (low, None if high is None else high - 1)
        else:
            lowest = ctx.interval(op.stop)[0]
            first = ctx.interval(op.start)[1]
            ctx.known[variable] = (None if lowest is None else lowest + 1, first)
        condition = f"{{}} {compare}"
    else:
        _check_step(ctx, op)
        ctx.known[variable] = (None, None)
        condition = f"{step} > 0 ? {{}} < {stop} : {{}} > {stop}"
        forward = f"{{}} += {step}"
    with ctx.scope():
        name = ctx.names.fresh(variable.name or "k")
        ctx.values[variable] = name
        test, advance = condition.replace("{}", name), forward.replace("{}", name)
        pragma = _pragma(op, start, stop, step)
        head = f"for (int64_t {name} = {start}; {test}; {advance})"
        with ctx.writer.braces(f"{pragma}{head}"):
            emit_block(ctx, op.body)


def _check_step(ctx: Context, op: ir.For) -> None:
    ctx.fail_unless(f"{compared(ctx.index(op.step))} != 0", Place("step", op.span), [])


def _pragma(op: ir.For, start: int | str, stop: int | str, step: int | str) -> str:
    if op.kind == "vectorized":
        return "TP_INDEPENDENT "
    if op.kind != "unroll" or isinstance(start, str) or isinstance(stop, str):
        return ""
    count = len(range(start, stop, step)) if isinstance(step, int) and step else 0
    return f"TP_UNROLL({count}) " if 1 < count <= UNROLL_LIMIT else ""


def _ternary(ctx: Context, op: ir.If) -> bool:
    """Write a branch whose ways are one expression each as `c ? a : b`; False for any other."""
    if len(op.results) != 1:
        return False
    texts = []
    before = len(ctx.writer.lines)
    for block in (op.then, op.otherwise):
        with ctx.scope():
            emit_block(ctx, block)
        last = block.ops[-1]
        assert isinstance(last, ir.Yield)
        texts.append(ctx.text(last.values[0]))
    if len(ctx.writer.lines) != before:
        del ctx.writer.lines[before:]
        return False
    ctx.define(op.result, f"{ctx.text(op.condition)} ? {texts[0]} : {texts[1]}")
    return True


def _print(ctx: Context, op: ir.Print) -> None:
    ctx.headers.add("print.h")
    point = "".join(f", {text}" for _, text in ctx.point)
    if op.value is None:
        number = ctx.place(Place("print", op.span, op.message))
        ctx.writer.line(f"tp_print<bool>(worker, {number}, false{point});")
    elif isinstance(op.value.type, ir.BufferType):
        tile = ctx.tile(op.value)
        place = Place(
            "print",
            op.span,
            op.message,
            tile.buffer.name,
            op.value.buffer.shape,
            dtype=op.value.dtype,
        )
        shown = tiles.tile_text(tile, all_dims=True)
        ctx.writer.line(f"tp_print_tile(worker, {ctx.place(place)}, {shown});")
    else:
        number = ctx.place(Place("print", op.span, op.message, dtype=op.value.dtype))
        type_ = value_type(op.value.dtype)
        value = ctx.bare(op.value)
        ctx.writer.line(f"tp_print<{type_}>(worker, {number}, {value}{point});")
