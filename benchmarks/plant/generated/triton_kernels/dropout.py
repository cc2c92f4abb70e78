# ruff: noqa: ANN001, ANN201, D103
"""Dropout by chances that are given."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x_ptr, keep_ptr, out_ptr, N, share, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < N)
    chance = tl.load(keep_ptr + at, mask=at < N)
    scaled = x / (1 - share)
    tl.store(out_ptr + at, tl.where(chance > share, scaled, 0.0), mask=at < N)


def run(x, chance):
    N = x.numel()
    out = torch.empty_like(x)
    block = 1024
    dropout_kernel[(triton.cdiv(N, block),)](x, chance, out, N, 0.25, block, num_warps=4)
    return out
