"""Ops as CUDA statements: control flow and scalars here, everything else by its own module."""

from __future__ import annotations

import math
from typing import cast

from tileprof import ir
from tileprof.compiler.codegen.branches import emit_if, emit_while
from tileprof.compiler.codegen.buffers import compared
from tileprof.compiler.codegen.expressions import bare, needs_functions, render
from tileprof.compiler.codegen.inlining import flat, inlined
from tileprof.compiler.codegen.values import Values
from tileprof.compiler.cuda.layouts import parse_layout, parse_shared
from tileprof.compiler.cuda.source import MOST_TILES
from tileprof.compiler.cuda.target import LARGEST_CLUSTER, RESIDENT_BLOCKS
from tileprof.errors import InternalError

from . import access, asynchronous, handovers, output, reduce, rings, tilecopy
from .buffers import FragmentBuffer, LocalBuffer, SharedBuffer
from .context import INT32, Context
from .convert import emit_convert
from .gemm import common as gemm
from .grid import emit_next_tile
from .loops import parallel
from .loops.in_flight import iterations_at_once, iterations_of, numbers_registers
from .marks import emit_mark
from .reshape import reinterpreted
from .scan import emit_scan

_POSITIONS = {"block": "blockIdx.x", "blocks": "gridDim.x", "rank": "tp_cluster_rank()"}
_POSITION_RANGES = {
    "block": (0, INT32 - 1), "blocks": (1, RESIDENT_BLOCKS), "rank": (0, LARGEST_CLUSTER - 1),
}  # fmt: skip


def emit_block(ctx: Context, block: ir.Block) -> None:
    """The ops of a block, one after another."""
    ops = flat(block)
    ctx.inline |= inlined(ops, ctx.uses)
    for op in ops:
        if op.span is not None:
            ctx.writer.location = op.span
        emit_op(ctx, op)


def emit_op(ctx: Context, op_: ir.OpBase) -> None:
    """One op."""
    op = cast("ir.Op | ir.DeviceOp", op_)
    match op:
        case ir.Constant() | ir.View() | ir.Yield() | ir.Annotate():
            pass  # stand where they are used, or are taken by the op around them
        case _ if isinstance(op, ir.ScalarOp):
            _scalar(ctx, op)
        case ir.Alloc():
            _alloc(ctx, op)
        case ir.Reinterpret():
            ctx.buffers[op.result] = reinterpreted(ctx, op)
        case ir.Load():
            access.emit_load(ctx, op)
        case ir.Store():
            access.emit_store(ctx, op)
        case ir.Atomic():
            access.emit_atomic(ctx, op)
        case ir.Parallel():
            parallel.emit_parallel(ctx, op, emit_block)
        case ir.Copy():
            tilecopy.emit_copy(ctx, op, emit_block)
        case ir.Gemm():
            gemm.emit_gemm(ctx, op)
        case ir.AsyncGemm():
            gemm.emit_async_gemm(ctx, op)
        case ir.Reduce():
            reduce.emit_reduce(ctx, op)
        case ir.AllReduce():
            reduce.emit_all_reduce(ctx, op)
        case ir.Scan():
            emit_scan(ctx, op)
        case ir.ConvertLayout():
            emit_convert(ctx, op)
        case ir.AsyncCopy() | ir.Commit() | ir.Wait():
            asynchronous.emit(ctx, op)
        case ir.Barrier():
            ctx.writer.line(ctx.barrier())
        case ir.Fence():
            ctx.headers.add("barriers.cuh")
            ctx.writer.line("tp_fence_async();")
        case ir.GridPosition(kind=kind):
            ctx.known[op.result] = _POSITION_RANGES[kind]
            ctx.define(op.result, _POSITIONS[kind])
        case ir.Ring() | ir.RingAcquire() | ir.RingCommit() | ir.RingWait() | ir.RingRelease():
            rings.emit(ctx, op)
        case ir.RingSend() | ir.RingReceive():
            rings.emit(ctx, op)
        case ir.NextTile():
            emit_next_tile(ctx, op)
        case ir.TurnStart() | ir.TurnWait() | ir.TurnPass():
            handovers.emit(ctx, op)
        case ir.Mark():
            emit_mark(ctx, op)
        case ir.Roles():
            rings.emit_roles(ctx, op, emit_block)
        case ir.For():
            _for(ctx, op)
        case ir.While():
            emit_while(ctx, op, emit_block)
        case ir.If():
            emit_if(ctx, op, emit_block)
        case ir.Break():
            ctx.writer.line("break;")
        case ir.Continue():
            ctx.writer.line("continue;")
        case ir.Print():
            output.emit_print(ctx, op)
        case ir.Assert():
            output.emit_assert(ctx, op)
        case _:
            raise InternalError(f"{op!r} reached the CUDA emitter")


def _scalar(ctx: Context, op: ir.OpBase) -> None:
    if isinstance(op, ir.Binary) and (chosen := _decided(ctx, op)) is not None:
        ctx.values[op.result] = ctx.text(chosen)
        return
    if needs_functions(op):
        ctx.headers.add("functions.cuh")
    if isinstance(op, ir.Binary) and (element := _of_halves(ctx, op)):
        if op in ctx.inline:
            ctx.values[op.result], ctx.raw[op.result] = f"tp_value({element})", element
        else:
            ctx.define(op.result, f"tp_value({element})")
        return
    text = scalar_text(ctx, op)
    if op in ctx.inline:
        ctx.values[op.result] = text
        if access.is_element(op):
            ctx.raw[op.result] = text.removeprefix("tp_value(").removesuffix(")")
    else:
        ctx.define(op.result, bare(text))


def _of_halves(ctx: Context, op: ir.Binary) -> str:
    """The sum or product of two halves as they lie in memory, which needs no float; '' for any
    other op."""
    if op.kind not in ("add", "sub", "mul") or op.result.dtype.name != "float16":
        return ""
    elements = [ctx.raw.get(v) for v in (op.left, op.right)]
    return "" if None in elements else f"tp_half_{op.kind}({', '.join(map(str, elements))})"


def _decided(ctx: Context, op: ir.Binary) -> ir.Value | None:
    """The operand that a minimum or maximum of indices always is; None where either may be."""
    if op.kind not in ("min", "max") or op.result.dtype.kind != "index":
        return None
    for one, other in ((op.left, op.right), (op.right, op.left)):
        (_, most), (least, _) = ctx.interval(one), ctx.interval(other)
        if most is not None and least is not None and most <= least:
            return one if op.kind == "min" else other
    return None


def scalar_text(ctx: Context, op: ir.OpBase) -> str:
    """A scalar computation as an operand; index arithmetic is done in 32 bits where it fits."""
    operands = [ctx.text(v) for v in op.operand_values()]
    index = "int64_t"
    if isinstance(op, ir.Binary) and op.result.dtype.kind == "index":
        index = "int"
        if any(ctx.type_of(v) == "int64_t" for v in (op.result, op.left, op.right)):
            index = "int64_t"
            operands[0] = f"(int64_t){operands[0]}"
        elif _is_unsigned_division(ctx, op):
            return f"(int){render(op, operands).replace('<int64_t>', '<uint32_t>')}"
    return render(op, operands).replace("<int64_t>", f"<{index}>")


def _is_unsigned_division(ctx: Context, op: ir.Binary) -> bool:
    """Whether a number that is not negative is divided by one that the compiler does not know:
    without signs that takes half of the instructions."""
    if op.kind not in ("floordiv", "floormod") or isinstance(op.right.owner, ir.Constant):
        return False
    lows = [ctx.interval(value)[0] for value in (op.left, op.right)]
    return all(low is not None and low >= 0 for low in lows)


def _alloc(ctx: Context, op: ir.Alloc) -> None:
    name = ctx.names.fresh(op.result.name or op.space)
    shown = op.result.name or op.space
    match op.space:
        case "local":
            local = LocalBuffer(name, op.dtype, op.shape, shown, op.shape)
            count = math.prod(op.shape)
            ctx.writer.line(f"{local.type} {name}{f'[{count}]' if op.shape else ''}{{}};")
            ctx.buffers[op.result] = local
        case "fragment":
            layout = parse_layout(op.layout, op.shape)
            fragment = FragmentBuffer(name, op.dtype, layout, shown, op.shape)
            ctx.writer.line(f"{fragment.type} {name}[{layout.registers_per_thread}];")
            ctx.buffers[op.result] = fragment
        case "shared":
            if op.offset < 0:
                raise InternalError(f"{op!r} has no place in shared memory")
            shared = parse_shared(op.layout, op.shape, op.dtype)
            ctx.writer.line(f"unsigned char *const {name} = tp_shared + {op.offset};")
            ctx.buffers[op.result] = SharedBuffer(name, op.dtype, shared, shown, op.shape)
        case "global":
            raise InternalError("global memory is not allocated inside a kernel")


# -- loops and branches


def _for(ctx: Context, op: ir.For) -> None:
    (variable,) = op.body.args
    start = ctx.index(op.start)
    stop, step = compared(ctx.index(op.stop)), compared(ctx.index(op.step))
    tiles = op.kind == "persistent"
    ctx.known[variable] = range_of(ctx, op)
    if tiles:
        # The launch refuses more tiles.
        known = ctx.known[variable][1]
        ctx.known[variable] = (0, MOST_TILES - 1 if known is None else min(known, MOST_TILES - 1))
    least, most = ctx.interval(op.step)
    with ctx.scope():
        if tiles and ctx.type_of(op.stop) != "int":
            total = ctx.names.fresh("tiles")
            ctx.writer.line(f"const int {total} = (int)({stop});")
            stop = total
        name = ctx.names.fresh(variable.name or "k")
        ctx.values[variable] = name
        if least is not None and least > 0:
            test = f"{name} < {stop}"
        elif most is not None and most < 0:
            test = f"{name} > {stop}"
        else:
            test = f"{step} > 0 ? {name} < {stop} : {name} > {stop}"
        forward = {1: f"++{name}", -1: f"--{name}"}.get(step if isinstance(step, int) else 0)
        kind = ctx.type_of(variable)
        if not isinstance(step, int) and not tiles and not _stays_small(ctx, op):
            kind = "int64_t"
        if pragma := _unrolling(ctx, op):
            ctx.writer.line(pragma)
        last = op.body.ops[-1] if op.body.ops else None
        if isinstance(last, ir.Yield):
            with ctx.writer.braces(f"for ({kind} {name} = {start}; {test};)"):
                _emit_iteration(ctx, op)
                ctx.writer.line(f"{name} = {ctx.bare(last.values[0])};")
            return
        head = f"for ({kind} {name} = {start}; {test}; {forward or f'{name} += {step}'})"
        with ctx.writer.braces(head):
            _emit_iteration(ctx, op)


def _emit_iteration(ctx: Context, op: ir.For) -> None:
    outer, ctx.crowded = ctx.crowded, ctx.crowded or op.schedule.crowded
    emit_block(ctx, op.body)
    ctx.crowded = outer


def _stays_small(ctx: Context, op: ir.For) -> bool:
    """Whether the last step, beyond the end, fits 32 bits too."""
    (least, most), (_, stop) = ctx.interval(op.step), ctx.interval(op.stop)
    if least is None or most is None or stop is None:
        return False
    return least > 0 and stop + most < INT32


def range_of(ctx: Values, op: ir.For) -> tuple[int | None, int | None]:
    """Bounds of the loop variable."""
    least, most = ctx.interval(op.step)
    start, stop = ctx.interval(op.start), ctx.interval(op.stop)
    if least is not None and least > 0:
        return start[0], None if stop[1] is None else max(stop[1] - 1, start[0] or 0)
    if most is not None and most < 0:
        return None if stop[0] is None else stop[0] + 1, start[1]
    return None, None


def _unrolling(ctx: Context, op: ir.For) -> str:
    if op in ctx.unrolled or numbers_registers(op):
        return "#pragma unroll"
    together = iterations_at_once(op, ctx.aliased, ctx.threads)
    if together > 1 or (together and op.kind in ("unroll", "vectorized")):
        whole = together == len(iterations_of(op) or ())
        return "#pragma unroll" if whole else f"#pragma unroll {together}"
    return "#pragma unroll 1" if together else ""
