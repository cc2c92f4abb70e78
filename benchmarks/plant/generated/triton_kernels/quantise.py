# ruff: noqa: ANN001, ANN201, D103
"""Bytes by the greatest of each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantise_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    top = tl.max(tl.abs(x), 0)
    y = x * 127.0 / top
    whole = tl.floor(y + 0.5)
    tl.store(out_ptr + row * N + at, whole.to(tl.int8), mask=at < N)


def run(x):
    M, N = x.shape
    out = torch.empty((M, N), device=x.device, dtype=torch.int8)
    block = triton.next_power_of_2(N)
    quantise_kernel[(M,)](x, out, N, block, num_warps=8)
    return out
