# ruff: noqa: ANN001, ANN201, D103
"""Channels of sound by a filter that remembers two inputs and two results."""

import torch
import triton
import triton.language as tl


@triton.jit
def biquad_kernel(x_ptr, factor_ptr, out_ptr, L, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < N
    b0 = tl.load(factor_ptr + at, mask=real, other=0.0)
    b1 = tl.load(factor_ptr + N + at, mask=real, other=0.0)
    b2 = tl.load(factor_ptr + 2 * N + at, mask=real, other=0.0)
    a1 = tl.load(factor_ptr + 3 * N + at, mask=real, other=0.0)
    a2 = tl.load(factor_ptr + 4 * N + at, mask=real, other=0.0)
    first = tl.zeros((block,), dtype=tl.float32)
    second = tl.zeros((block,), dtype=tl.float32)
    for t in range(0, L):
        x = tl.load(x_ptr + t * N + at, mask=real, other=0.0)
        y = b0 * x + first
        first = b1 * x - a1 * y + second
        second = b2 * x - a2 * y
        tl.store(out_ptr + t * N + at, y, mask=real)


def run(x, factor):
    L, N = x.shape
    out = torch.empty_like(x)
    block = 128
    biquad_kernel[(triton.cdiv(N, block),)](x, factor, out, L, N, block, num_warps=4)
    return out
