# ruff: noqa: ANN001, ANN201, D103
"""A product with weights of four bits, eight in a word, each 128 of the depth with a scale."""

import torch
import triton
import triton.language as tl


@triton.jit
def int4_product_kernel(
    a_ptr, packed_ptr, scale_ptr, c_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    inside = (i[:, None] < M) & (j[None, :] < N)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0.0)
        words = tl.load(packed_ptr + (k + d)[:, None] // 8 * N + j[None, :])
        scale = tl.load(scale_ptr + k // 128 * N + j)
        nibble = (words >> (d % 8 * 4)[:, None]) & 15
        w = (nibble - 8).to(tl.float32) * scale[None, :]
        sums = tl.dot(a, w.to(tl.bfloat16), sums)
    tl.store(c_ptr + i[:, None] * N + j[None, :], sums.to(tl.bfloat16), mask=inside)


def run(a, packed, scale):
    (M, K), N = a.shape, packed.shape[1]
    c = torch.empty((M, N), device=a.device, dtype=a.dtype)
    rows, columns, depth = 128, 128, 64
    int4_product_kernel[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        a, packed, scale, c, M, N, K, rows, columns, depth, num_warps=8, num_stages=3
    )
    return c
