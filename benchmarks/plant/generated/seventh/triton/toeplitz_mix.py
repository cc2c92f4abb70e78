# ruff: noqa: ANN001, ANN201, D103
"""Sequences mixed by long filters: products with matrices whose diagonals a filter gives."""

import torch
import triton
import triton.language as tl


@triton.jit
def toeplitz_mix_kernel(
    h_ptr, x_ptr, y_ptr, L,
    stride_xb, stride_xl, HEAD: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    batch = tl.program_id(2)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_k = tl.arange(0, BLOCK_K)
    offs_c = tl.arange(0, HEAD)
    base = batch * stride_xb + head * HEAD
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for k in range(0, (start_m + 1) * BLOCK_M, BLOCK_K):
        behind = offs_m[:, None] - (k + offs_k)[None, :]
        t = tl.load(h_ptr + head * L + behind, mask=(behind >= 0) & (behind < L), other=0.0)
        at = base + (k + offs_k)[:, None] * stride_xl + offs_c[None, :]
        x = tl.load(x_ptr + at, mask=(k + offs_k)[:, None] < L, other=0.0)
        acc = tl.dot(t, x, acc)
    place = base + offs_m[:, None] * stride_xl + offs_c[None, :]
    tl.store(y_ptr + place, acc.to(tl.bfloat16), mask=offs_m[:, None] < L)


def run(h, x):
    B, L, heads, dim = x.shape
    y = torch.empty_like(x)
    BLOCK_M, BLOCK_K = 128, 64
    toeplitz_mix_kernel[(triton.cdiv(L, BLOCK_M), heads, B)](
        h, x, y, L, x.stride(0), x.stride(1), dim, BLOCK_M, BLOCK_K, num_warps=4, num_stages=2
    )
    return y
