# ruff: noqa: ANN001, ANN201, D103
"""Waves of sound by an activation with a sine, whose rate each channel has learned."""

import torch
import triton
import triton.language as tl


@triton.jit
def snake_kernel(x_ptr, rate_ptr, out_ptr, C, N, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    rate = tl.load(rate_ptr + row % C)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    wave = tl.sin(x * rate)
    y = x + wave * wave / rate
    tl.store(out_ptr + row * N + at, y, mask=at < N)


def run(x, rate):
    B, C, N = x.shape
    out = torch.empty_like(x)
    block = 1024
    snake_kernel[(triton.cdiv(N, block), B * C)](x, rate, out, C, N, block, num_warps=4)
    return out
