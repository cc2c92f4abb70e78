# ruff: noqa: ANN001, ANN201, D103
"""A step that makes a symmetric matrix's square part of it, as one optimizer has."""

import torch
import triton
import triton.language as tl


@triton.jit
def newton_schulz_kernel(
    a_ptr, out_ptr, N,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    down, across = tl.swizzle2d(
        tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), group
    )
    i = down * rows + tl.arange(0, rows)
    j = across * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, N, depth):
        a = tl.load(a_ptr + i[:, None] * N + (k + d)[None, :])
        b = tl.load(a_ptr + (k + d)[:, None] * N + j[None, :])
        sums = tl.dot(a, b, sums)
    held = tl.load(a_ptr + i[:, None] * N + j[None, :]).to(tl.float32)
    made = held * -4.775 + sums * 2.0315
    tl.store(out_ptr + i[:, None] * N + j[None, :], made.to(tl.bfloat16))


def run(a):
    N = a.shape[0]
    out = torch.empty_like(a)
    rows, columns, depth = 128, 128, 64
    group = 8
    newton_schulz_kernel[(triton.cdiv(N, rows), triton.cdiv(N, columns))](
        a, out, N, rows, columns, depth, group, num_warps=8, num_stages=3
    )
    return out
