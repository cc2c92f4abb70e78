# ruff: noqa: ANN001, ANN201, D103
"""Logarithms of how likely points are in a mixture of 64 normal distributions."""

import torch
import triton
import triton.language as tl


@triton.jit
def mixture_density_kernel(
    x_ptr, mean_ptr, narrow_ptr, share_ptr, out_ptr, N, parts,
    dim: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * block + tl.arange(0, block)
    d = tl.arange(0, dim)
    x = tl.load(x_ptr + i[:, None] * dim + d[None, :], mask=i[:, None] < N, other=0.0)
    top = tl.full((block,), -1e30, dtype=tl.float32)
    total = tl.zeros((block,), dtype=tl.float32)
    for part in range(0, parts):
        mean = tl.load(mean_ptr + part * dim + d)
        narrow = tl.load(narrow_ptr + part * dim + d)
        apart = (x - mean[None, :]) * narrow[None, :]
        chance = tl.load(share_ptr + part) - 0.5 * tl.sum(apart * apart, 1)
        most = tl.maximum(top, chance)
        total = total * tl.exp(top - most) + tl.exp(chance - most)
        top = most
    y = top + tl.log(total)
    tl.store(out_ptr + i, y, mask=i < N)


def run(x, mean, narrow, share):
    N, dim = x.shape
    out = torch.empty((N,), device=x.device, dtype=torch.float32)
    block = 128
    mixture_density_kernel[(triton.cdiv(N, block),)](
        x, mean, narrow, share, out, N, mean.shape[0], dim, block, num_warps=4
    )
    return out
