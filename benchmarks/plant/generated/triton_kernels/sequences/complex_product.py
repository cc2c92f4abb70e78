# ruff: noqa: ANN001, ANN201, D103
"""Rows of complex numbers by a filter, real parts beside imaginary ones in memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def complex_product_kernel(x_ptr, w_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    w = tl.load(w_ptr + at, mask=at < N, other=0.0)
    a, b = tl.split(tl.reshape(x, (block // 2, 2)))
    c, d = tl.split(tl.reshape(w, (block // 2, 2)))
    y = tl.interleave(a * c - b * d, a * d + b * c)
    tl.store(out_ptr + row * N + at, y, mask=at < N)


def run(x, w):
    M, N = x.shape
    out = torch.empty_like(x)
    block = 1024
    complex_product_kernel[(triton.cdiv(N, block), M)](x, w, out, N, block, num_warps=4)
    return out
