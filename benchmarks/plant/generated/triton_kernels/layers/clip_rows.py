# ruff: noqa: ANN001, ANN201, D103
"""Rows cut off at their own upper eighth, which sorting finds."""

import torch
import triton
import triton.language as tl


@triton.jit
def clip_rows_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0)
    order = tl.sort(tl.abs(x))
    most = tl.sum(tl.where(at == block - N // 8, order, 0.0), 0)
    y = tl.minimum(tl.maximum(x, -most), most)
    tl.store(out_ptr + row * N + at, y, mask=at < N)


def run(x):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    clip_rows_kernel[(M,)](x, out, N, block, num_warps=4)
    return out
