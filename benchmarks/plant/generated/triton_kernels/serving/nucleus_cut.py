# ruff: noqa: ANN001, ANN201, D103
"""The most likely words that have nine tenths of all chance together: a limit found by halving."""

import torch
import triton
import triton.language as tl


@triton.jit
def nucleus_cut_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    real = at < N
    x = tl.load(x_ptr + row * N + at, mask=real, other=-1e30).to(tl.float32)
    chance = tl.exp(x - tl.max(x, 0))
    wanted = tl.sum(chance, 0) * 0.9
    low = 0.0
    high = 1.0
    for _ in range(12):
        middle = (low + high) * 0.5
        enough = tl.sum(tl.where(chance >= middle, chance, 0.0), 0) >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    kept = tl.where(chance >= low, chance, 0.0)
    y = kept / tl.sum(kept, 0)
    tl.store(out_ptr + row * N + at, y, mask=real)


def run(x):
    M, N = x.shape
    out = torch.empty((M, N), device=x.device, dtype=torch.float32)
    block = triton.next_power_of_2(N)
    nucleus_cut_kernel[(M,)](x, out, N, block, num_warps=16)
    return out
