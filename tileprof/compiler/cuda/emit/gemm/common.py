"""Matrix products: the start and the end that all instructions share.

In: `gemm` and `async_gemm` with their `lowering`.  `wgmma.py`, `mma.py` and `fma.py` write
the instructions.
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.layouts.matrix import accumulator_layout
from tileprof.ir.instructions import Fma, Wgmma

from .fma import emit_fma
from .matrices import registers_of
from .mma import emit_mma
from .wgmma import can_wgmma, emit_wgmma


def emit_gemm(ctx: Context, op: ir.Gemm) -> None:
    """A product that is done when the statement is."""
    _emit(ctx, op, wait=True)


def emit_async_gemm(ctx: Context, op: ir.AsyncGemm) -> None:
    """A product that is started and committed as one group."""
    _emit(ctx, op.gemm, wait=False)


def _emit(ctx: Context, op: ir.Gemm, *, wait: bool) -> None:
    instruction = op.lowering
    layout = accumulator_layout(op, ctx.threads)
    sums = registers_of(ctx, op.c, layout)
    ctx.writer.line(f"// {op.lowering}")
    with ctx.writer.braces(""), ctx.scope():
        if isinstance(instruction, Fma):
            _clear(ctx, op, sums, layout.registers_per_thread)
            emit_fma(ctx, op, instruction, sums)
        elif isinstance(instruction, Wgmma) and can_wgmma(ctx, op, instruction):
            emit_wgmma(ctx, op, instruction, sums, wait=wait)
        else:
            # Shared memory as another op wants it may be what wgmma cannot read; warps hold the
            # accumulators in the same way for both.
            _clear(ctx, op, sums, layout.registers_per_thread)
            emit_mma(ctx, op, sums)
            if not wait:
                # The wait for it, which was planned, counts groups.
                ctx.headers.add("wgmma.cuh")
                ctx.writer.line("tp_wgmma_commit();")


def _clear(ctx: Context, op: ir.Gemm, sums: str, count: int) -> None:
    if not op.clear:
        return
    ctx.writer.line("TP_UNROLL_ALL")
    start = f"({sums})" if "+" in sums else sums
    with ctx.scope():
        i = ctx.names.fresh("i")
        ctx.writer.line(f"for (int {i} = 0; {i} < {count}; ++{i}) {start}[{i}] = 0;")
