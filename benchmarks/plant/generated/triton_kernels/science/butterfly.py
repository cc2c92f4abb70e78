# ruff: noqa: ANN001, ANN201, D103
"""One stage of a Fourier transform: sums of halves, and differences that are turned."""

import torch
import triton
import triton.language as tl


@triton.jit
def butterfly_kernel(x_ptr, turn_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < N
    place = row * 4 * N + at
    a = tl.load(x_ptr + place, mask=real, other=0.0)
    b = tl.load(x_ptr + place + N, mask=real, other=0.0)
    c = tl.load(x_ptr + place + 2 * N, mask=real, other=0.0)
    d = tl.load(x_ptr + place + 3 * N, mask=real, other=0.0)
    cos = tl.load(turn_ptr + at, mask=real, other=0.0)
    sin = tl.load(turn_ptr + N + at, mask=real, other=0.0)
    one = a - b
    two = c - d
    tl.store(out_ptr + place, a + b, mask=real)
    tl.store(out_ptr + place + N, one * cos - two * sin, mask=real)
    tl.store(out_ptr + place + 2 * N, c + d, mask=real)
    tl.store(out_ptr + place + 3 * N, one * sin + two * cos, mask=real)


def run(x, turn):
    M, _, _, N = x.shape
    out = torch.empty_like(x)
    block = 1024
    butterfly_kernel[(triton.cdiv(N, block), M)](x, turn, out, N, block, num_warps=4)
    return out
