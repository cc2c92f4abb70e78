"""Products by `mma.sync`: each warp reads its operands for a step of K and multiplies them.

for (int k = 0; k < 4; ++k) {          steps of 32 bytes
  uint32_t a[8], b[16];
  …                                    ldmatrix, or registers of a fragment
  for (m …) for (n …) tp_mma_m16n8k16_bf16(c + 4 * (n + 8 * m), a + 4 * m, b + 2 * n);
}
"""

from __future__ import annotations

from tileprof import ir
from tileprof.compiler.codegen.buffers import Extent, times
from tileprof.compiler.cuda.layouts.instruction import Fma, parse_instruction
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    is_k_major,
    matrix_dims,
    operand_layout,
    step_layout,
)

from .context import Context
from .matrices import find_matrices, gather_words, load_matrices, registers_of, shared_tile

__all__ = ["TYPES", "emit_mma"]

TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "tf32",
    "float8_e4m3": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
}
"""Element types as instructions call them."""
UNROLLED = 512
"""Instructions up to which all steps of K are written out."""


def emit_mma(ctx: Context, op: ir.Gemm, sums: str) -> None:
    """`sums += a b` by warps; for accumulators of wgmma too, which lie alike."""
    ctx.headers.add("matrix.cuh")
    instruction = parse_instruction(op.lowering)
    assert not isinstance(instruction, Fma)
    m, n, k = op.mnk
    down, across = m // instruction.rows // instruction.m, n // instruction.columns // 8
    steps = k // instruction.k
    line = ctx.writer.line
    in_registers = any(v.buffer.space == "fragment" for v in (op.a, op.b))
    whole = in_registers or steps * down * across <= UNROLLED
    line("TP_UNROLL_ALL" if whole else "TP_UNROLL(2)")
    with ctx.writer.braces(f"for (int k = 0; k < {steps}; ++k)"):
        line(f"uint32_t a[{4 * down}], b[{2 * across}];")
        _load(ctx, op, "a", down, steps)
        _load(ctx, op, "b", across, steps)
        line("TP_UNROLL_ALL")
        with ctx.writer.braces(f"for (int m = 0; m < {down}; ++m)"):
            line("TP_UNROLL_ALL")
            number = "n" if down == 1 else f"(n + {across} * m)"
            call = f"{_name(op)}({sums} + 4 * {number}, a + 4 * m, b + 2 * n);"
            line(f"for (int n = 0; n < {across}; ++n) {call}")


def _name(op: ir.Gemm) -> str:
    a, b = TYPES[op.a.dtype.name], TYPES[op.b.dtype.name]
    depth = 32 // op.a.dtype.bytes
    return f"tp_mma_m16n8k{depth}_{a}" + (f"_{b}" if a != b else "")


def _load(ctx: Context, op: ir.Gemm, which: Operand, atoms: int, steps: int) -> None:
    """The words of one operand for step `k`."""
    value = op.a if which == "a" else op.b
    if value.buffer.space == "fragment":
        _take(ctx, op, which, atoms, steps)
        return
    layout = step_layout(op, ctx.threads, which)
    start: list[Extent] = [0] * layout.rank
    rows, columns = matrix_dims(value)
    start[columns if is_k_major(op, which) else rows] = times(32 // value.dtype.bytes, "k")
    tile = shared_tile(ctx, value)
    found = find_matrices(layout, value.dtype)
    if found is None or not tile.aligned:
        gather_words(ctx, layout, tile, which, start)
    else:
        load_matrices(ctx, found, tile, which, start)


def _take(ctx: Context, op: ir.Gemm, which: Operand, atoms: int, steps: int) -> None:
    """From the registers of a fragment, where all steps of an atom follow each other."""
    value = op.a if which == "a" else op.b
    words = 4 if which == "a" else 2
    held = registers_of(ctx, value, operand_layout(op, ctx.threads, which))
    elements = words * 4 // value.dtype.bytes
    at = "k" if atoms == 1 else f"(k + {steps} * i)"
    ctx.writer.line("TP_UNROLL_ALL")
    ctx.writer.line(
        f"for (int i = 0; i < {atoms}; ++i) "
        f"tp_to_words<{words}>({which} + {words} * i, {held} + {elements} * {at});"
    )
