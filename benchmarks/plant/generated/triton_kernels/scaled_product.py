# ruff: noqa: ANN001, ANN201, D103
"""A product of bytes, each 64 of the depth with a factor of their own."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_product_kernel(
    a_ptr, b_ptr, one_ptr, other_ptr, c_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + i[:, None] * K + (k + d)[None, :])
        b = tl.load(b_ptr + (k + d)[:, None] + j[None, :] * K)
        one = tl.load(one_ptr + i * (K // 64) + k // 64)
        other = tl.load(other_ptr + j * (K // 64) + k // 64)
        part = tl.dot(a, b).to(tl.float32)
        sums += part * one[:, None] * other[None, :]
    tl.store(c_ptr + i[:, None] * N + j[None, :], sums.to(tl.bfloat16))


def run(a, b, one, other):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=torch.bfloat16)
    rows, columns = 128, 128
    depth = 64
    scaled_product_kernel[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        a, b, one, other, c, M, N, K, rows, columns, depth, num_warps=8, num_stages=3
    )
    return c
