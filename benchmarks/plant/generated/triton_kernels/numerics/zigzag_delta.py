# ruff: noqa: ANN001, ANN201, D103
"""Differences of neighbouring numbers, small ones of both signs as small positive ones."""

import torch
import triton
import triton.language as tl


@triton.jit
def zigzag_delta_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0)
    before = tl.load(x_ptr + row * N + at - 1, mask=(at < N) & (at > 0), other=0)
    apart = x - before
    code = (apart << 1) ^ (apart >> 31)
    tl.store(out_ptr + row * N + at, code, mask=at < N)


def run(x):
    M, N = x.shape
    out = torch.empty_like(x)
    block = 1024
    zigzag_delta_kernel[(triton.cdiv(N, block), M)](x, out, N, block, num_warps=4)
    return out
