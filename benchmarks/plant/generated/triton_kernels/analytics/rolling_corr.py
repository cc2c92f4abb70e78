# ruff: noqa: ANN001, ANN201, D103
"""Correlations of pairs of series over the last 32 days, for each day."""

import torch
import triton
import triton.language as tl


@triton.jit
def rolling_corr_kernel(x_ptr, y_ptr, out_ptr, N, days: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    one = tl.zeros((block,), dtype=tl.float32)
    two = tl.zeros((block,), dtype=tl.float32)
    squares = tl.zeros((block,), dtype=tl.float32)
    others = tl.zeros((block,), dtype=tl.float32)
    both = tl.zeros((block,), dtype=tl.float32)
    for back in range(days):
        real = (at >= back) & (at < N)
        x = tl.load(x_ptr + row * N + at - back, mask=real, other=0.0)
        y = tl.load(y_ptr + row * N + at - back, mask=real, other=0.0)
        one += x
        two += y
        squares += x * x
        others += y * y
        both += x * y
    shared = both - one * two / days
    spread = (squares - one * one / days) * (others - two * two / days)
    alike = shared * tl.rsqrt(tl.maximum(spread, 1e-6))
    tl.store(out_ptr + row * N + at, alike, mask=at < N)


def run(x, y):
    M, N = x.shape
    out = torch.empty_like(x)
    block = 512
    rolling_corr_kernel[(triton.cdiv(N, block), M)](x, y, out, N, 32, block, num_warps=4)
    return out
