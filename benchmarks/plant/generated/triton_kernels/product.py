# ruff: noqa: ANN001, ANN201, D103
"""A product of matrices, blocks in groups of rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    down, across = tl.cdiv(M, rows), tl.cdiv(N, columns)
    first = block // (group * across) * group
    high = min(down - first, group)
    m = first + block % (group * across) % high
    n = block % (group * across) // high
    i = m * rows + tl.arange(0, rows)
    j = n * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0.0)
        b = tl.load(b_ptr + (k + d)[:, None] * N + j[None, :], mask=j[None, :] < N, other=0.0)
        sums = tl.dot(a, b, sums)
    inside = (i[:, None] < M) & (j[None, :] < N)
    tl.store(c_ptr + i[:, None] * N + j[None, :], sums.to(tl.float16), mask=inside)


def run(a, b):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    rows, columns, depth = 128, 128, 64
    group = 8
    grid = (triton.cdiv(M, rows) * triton.cdiv(N, columns),)
    product_kernel[grid](a, b, c, M, N, K, rows, columns, depth, group, num_warps=8, num_stages=3)
    return c
