# ruff: noqa: ANN001, ANN201, D103
"""The sum of the four greatest numbers of each row, each found and left out in turn."""

import torch
import triton
import triton.language as tl


@triton.jit
def top_four_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=-1e30)
    total = 0.0
    for _ in range(0, 4):
        top = tl.max(x, 0)
        place = tl.argmax(x, 0)
        total += top
        x = tl.where(at == place, -1e30, x)
    tl.store(out_ptr + row, total)


def run(x):
    M, N = x.shape
    out = torch.empty((M,), device=x.device, dtype=torch.float32)
    block = triton.next_power_of_2(N)
    top_four_kernel[(M,)](x, out, N, block, num_warps=4)
    return out
