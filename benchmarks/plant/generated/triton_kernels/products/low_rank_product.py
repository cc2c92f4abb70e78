# ruff: noqa: ANN001, ANN201, D103
"""A linear layer with an adapter of low rank, whose inner product shares the loop."""

import torch
import triton
import triton.language as tl


@triton.jit
def low_rank_product_kernel(
    x_ptr, w_ptr, down_ptr, up_ptr, out_ptr, M, N, K, rank: tl.constexpr,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    r = tl.arange(0, rank)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    low = tl.zeros((rows, rank), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :])
        w = tl.load(w_ptr + (k + d)[:, None] * N + j[None, :])
        down = tl.load(down_ptr + (k + d)[:, None] * rank + r[None, :])
        sums = tl.dot(x, w, sums)
        low = tl.dot(x, down, low)
    up = tl.load(up_ptr + r[:, None] * N + j[None, :])
    sums = tl.dot(low.to(tl.bfloat16), up, sums)
    tl.store(out_ptr + i[:, None] * N + j[None, :], sums.to(tl.bfloat16))


def run(x, w, down, up):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    rows, columns, depth = 128, 128, 64
    low_rank_product_kernel[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        x, w, down, up, out, M, N, K, down.shape[1], rows, columns, depth,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return out
