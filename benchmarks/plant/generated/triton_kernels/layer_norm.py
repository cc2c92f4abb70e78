# ruff: noqa: ANN001, ANN201, D103
"""Rows less their mean by their deviation, with a weight and a bias."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / N
    apart = tl.where(at < N, x - mean, 0.0)
    square = apart * apart
    factor = tl.rsqrt(tl.sum(square, 0) / N + 1e-5)
    w = tl.load(w_ptr + at, mask=at < N, other=0.0)
    b = tl.load(b_ptr + at, mask=at < N, other=0.0)
    y = apart * factor * w + b
    tl.store(out_ptr + row * N + at, y.to(tl.bfloat16), mask=at < N)


def run(x, w, b):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    layer_norm_kernel[(M,)](x, w, b, out, N, block, num_warps=8)
    return out
