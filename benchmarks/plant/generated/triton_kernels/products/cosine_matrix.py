# ruff: noqa: ANN001, ANN201, D103
"""Cosines between the rows of two matrices; lengths are summed up beside the products."""

import torch
import triton
import triton.language as tl


@triton.jit
def cosine_matrix_kernel(
    x_ptr, y_ptr, out_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    down = tl.zeros((rows, depth), dtype=tl.float32)
    across = tl.zeros((depth, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :])
        y = tl.load(y_ptr + j[None, :] * K + (k + d)[:, None])
        sums = tl.dot(x, y, sums)
        down += x.to(tl.float32) * x.to(tl.float32)
        across += y.to(tl.float32) * y.to(tl.float32)
    one = tl.rsqrt(tl.sum(down, 1) + 1e-8)
    other = tl.rsqrt(tl.sum(across, 0) + 1e-8)
    cosine = sums * one[:, None] * other[None, :]
    tl.store(out_ptr + i[:, None] * N + j[None, :], cosine.to(tl.bfloat16))


def run(x, y):
    (M, K), N = x.shape, y.shape[0]
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    rows, columns, depth = 128, 128, 32
    cosine_matrix_kernel[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        x, y, out, M, N, K, rows, columns, depth, num_warps=8, num_stages=4
    )
    return out
