# ruff: noqa: ANN001, ANN201, D103
"""Rows by the root of their mean square, with a weight."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x_ptr, w_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    squares = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        x = tl.load(x_ptr + row * N + n + at, mask=n + at < N, other=0.0)
        squares += x * x
    factor = tl.rsqrt(tl.sum(squares, 0) / N + 1e-6)
    for n in range(0, N, block):
        x = tl.load(x_ptr + row * N + n + at, mask=n + at < N, other=0.0)
        w = tl.load(w_ptr + n + at, mask=n + at < N, other=0.0)
        y = x * factor * w
        tl.store(out_ptr + row * N + n + at, y, mask=n + at < N)


def run(x, w):
    M, N = x.shape
    out = torch.empty_like(x)
    block = 2048
    rms_norm_kernel[(M,)](x, w, out, N, block, num_warps=8)
    return out
