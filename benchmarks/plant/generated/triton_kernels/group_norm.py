# ruff: noqa: ANN001, ANN201, D103
"""Channels in groups less their mean by their deviation, an image's group a program."""

import torch
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    start = tl.program_id(0) * N
    at = tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    squares = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        x = tl.load(x_ptr + start + n + at, mask=n + at < N, other=0.0).to(tl.float32)
        sums += x
        squares += x * x
    mean = tl.sum(sums, 0) / N
    factor = tl.rsqrt(tl.sum(squares, 0) / N - mean * mean + 1e-5)
    for n in range(0, N, block):
        x = tl.load(x_ptr + start + n + at, mask=n + at < N, other=0.0).to(tl.float32)
        y = (x - mean) * factor
        tl.store(out_ptr + start + n + at, y.to(tl.bfloat16), mask=n + at < N)


def run(x):
    G, N = x.shape
    out = torch.empty_like(x)
    block = 4096
    group_norm_kernel[(G,)](x, out, N, block, num_warps=8)
    return out
