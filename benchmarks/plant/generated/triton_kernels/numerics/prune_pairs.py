# ruff: noqa: ANN001, ANN201, D103
"""Weights of which the two smaller ones of each four neighbours become zero."""

import torch
import triton
import triton.language as tl


@triton.jit
def prune_pairs_kernel(x_ptr, out_ptr, N, fours: tl.constexpr):
    f = tl.program_id(0) * fours + tl.arange(0, fours)
    n = tl.arange(0, 4)
    place = f[:, None] * 4 + n[None, :]
    x = tl.load(x_ptr + place, mask=place < N, other=0.0)
    size = tl.abs(x.to(tl.float32))
    other = size[:, None, :] > size[:, :, None]
    same = (size[:, None, :] == size[:, :, None]) & (n[None, None, :] < n[None, :, None])
    larger = tl.sum((other | same).to(tl.int32), 2)
    tl.store(out_ptr + place, tl.where(larger < 2, x, 0.0), mask=place < N)


def run(x):
    N = x.numel()
    out = torch.empty_like(x)
    fours = 256
    prune_pairs_kernel[(triton.cdiv(N, 4 * fours),)](x, out, N, fours, num_warps=4)
    return out
