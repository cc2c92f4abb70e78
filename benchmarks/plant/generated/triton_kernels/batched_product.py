# ruff: noqa: ANN001, ANN201, D103
"""Products of as many pairs of matrices as there are heads."""

import torch
import triton
import triton.language as tl


@triton.jit
def batched_product_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    g = tl.program_id(2)
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + g * M * K + i[:, None] * K + (k + d)[None, :])
        b = tl.load(b_ptr + g * N * K + j[None, :] * K + (k + d)[:, None])
        sums = tl.dot(a, b, sums)
    tl.store(c_ptr + g * M * N + i[:, None] * N + j[None, :], sums.to(tl.bfloat16))


def run(a, b):
    (G, M, K), N = a.shape, b.shape[1]
    c = torch.empty((G, M, N), device=a.device, dtype=a.dtype)
    rows, columns, depth = 128, 128, 64
    batched_product_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows), G)](
        a, b, c, M, N, K, rows, columns, depth, num_warps=8, num_stages=3
    )
    return c
