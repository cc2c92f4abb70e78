"""Products by `mma.sync`: each warp reads its operands for a step of K and multiplies them.

for (int k = 0; k < 4; ++k) {          steps of 32 bytes
  uint32_t a[8], b[16];
  …                                    ldmatrix, or registers of a fragment
  for (m …) for (n …) tp_mma_m16n8k16_bf16(c + 4 * (n + 8 * m), a + 4 * m, b + 2 * n);
}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tileprof import ir
from tileprof.compiler.codegen.buffers import plus, times
from tileprof.compiler.cuda.emit.context import Context
from tileprof.compiler.cuda.emit.loops.points import thread_coordinates
from tileprof.compiler.cuda.layouts.matrix import (
    Operand,
    is_k_major,
    matrix_dims,
    operand_layout,
    step_layout,
)
from tileprof.compiler.cuda.tuning import UNROLLED_PRODUCTS, UNROLLED_STEPS
from tileprof.ir.instructions import Mma, Wgmma

from .matrices import find_matrices, gather_words, load_matrices, registers_of, shared_tile

TYPES = {
    "bfloat16": "bf16",
    "float16": "f16",
    "float32": "tf32",
    "float8_e4m3": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
    "float64": "f64",
}
"""Element types as instructions call them."""


def emit_mma(ctx: Context, op: ir.Gemm, sums: str) -> None:
    """`sums += a b` by warps; for accumulators of wgmma too, which lie alike."""
    ctx.headers.add("matrix.cuh")
    instruction = op.lowering
    assert isinstance(instruction, Wgmma | Mma)
    m, n, k = op.mnk
    down, across = m // instruction.rows // instruction.m, n // instruction.columns // 8
    steps = k // instruction.k
    line = ctx.writer.line
    in_registers = any(v.buffer.space == "fragment" for v in (op.a, op.b))
    whole = in_registers or steps * down * across <= UNROLLED_PRODUCTS
    a, b, step = (ctx.names.fresh(name) for name in "abk")
    loads = [
        _operand(ctx, op, "a", _Words(a, step, down, steps)),
        _operand(ctx, op, "b", _Words(b, step, across, steps)),
    ]
    line("TP_UNROLL_ALL" if whole else f"TP_UNROLL({UNROLLED_STEPS})")
    with ctx.writer.braces(f"for (int {step} = 0; {step} < {steps}; ++{step})"):
        kind, *counts = ("double", 2, 1) if op.a.dtype.bits == 64 else ("uint32_t", 4, 2)
        line(f"{kind} {a}[{counts[0] * down}], {b}[{counts[1] * across}];")
        for load in loads:
            load()
        row, column = ctx.names.fresh("m"), ctx.names.fresh("n")
        line("TP_UNROLL_ALL")
        with ctx.writer.braces(f"for (int {row} = 0; {row} < {down}; ++{row})"):
            line("TP_UNROLL_ALL")
            number = column if down == 1 else f"({column} + {across} * {row})"
            words = f"{a} + {counts[0]} * {row}, {b} + {counts[1]} * {column}"
            call = f"{_name(op)}({sums} + 4 * {number}, {words});"
            line(f"for (int {column} = 0; {column} < {across}; ++{column}) {call}")


@dataclass(frozen=True, slots=True)
class _Words:
    """The words of an operand for one step of K."""

    array: str
    step: str
    """The number of the step, a variable."""
    atoms: int
    """Instructions along M or N."""
    steps: int


def _name(op: ir.Gemm) -> str:
    a, b = TYPES[op.a.dtype.name], TYPES[op.b.dtype.name]
    depth = 32 // op.a.dtype.bytes
    return f"tp_mma_m16n8k{depth}_{a}" + (f"_{b}" if a != b else "")


def _operand(ctx: Context, op: ir.Gemm, which: Operand, words: _Words) -> Callable[[], None]:
    """Writes down where the thread reads an operand; gives what loads its words."""
    value = op.a if which == "a" else op.b
    if value.buffer.space == "fragment":
        held = registers_of(ctx, value, operand_layout(op, ctx.threads, which))
        return lambda: _take(ctx, which, value.dtype, held, words)
    layout = step_layout(op, ctx.threads, which)
    tile = shared_tile(ctx, value)
    found = find_matrices(layout, value.dtype) if tile.aligned else None
    start = thread_coordinates(layout if found is None else found.lanes)
    rows, columns = matrix_dims(value)
    row, column = (ctx.names.fresh(f"{which}_{place}") for place in ("row", "column"))
    ctx.writer.line(f"const int {row} = {start[rows]}, {column} = {start[columns]};")
    start[rows], start[columns] = row, column
    along = columns if is_k_major(op, which) else rows
    start[along] = plus(start[along], times(32 // value.dtype.bytes, words.step))
    if found is None:
        return lambda: gather_words(ctx, layout, tile, words.array, start)
    return lambda: load_matrices(ctx, found, tile, words.array, start)


def _take(ctx: Context, which: Operand, dtype: ir.DType, held: str, words: _Words) -> None:
    """From the registers of a fragment, where all steps of an atom follow each other."""
    count = 4 if which == "a" else 2
    elements = count * 4 // dtype.bytes
    with ctx.scope():
        i = ctx.names.fresh("i")
        at = words.step if words.atoms == 1 else f"({words.step} + {words.steps} * {i})"
        ctx.writer.line("TP_UNROLL_ALL")
        head = f"for (int {i} = 0; {i} < {words.atoms}; ++{i})"
        start = f"{held} + {elements} * {at}"
        if dtype.bytes <= 4:
            to = f"{words.array} + {count} * {i}"
            ctx.writer.line(f"{head} tp_to_words<{count}>({to}, {start});")
            return
        with ctx.writer.braces(head):
            for j in range(elements):
                to = f"{words.array}[{elements} * {i} + {j}]"
                ctx.writer.line(f"{to} = *({start} + {j});")
