# ruff: noqa: ANN001, ANN201, D103
"""Means of samples that are drawn again with replacement, by a hash of their numbers."""

import torch
import triton
import triton.language as tl


@triton.jit
def bootstrap_means_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    draw = tl.program_id(0)
    at = tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        number = (draw * N + n + at).to(tl.uint32)
        mixed = (number ^ (number >> 16)) * 73244475
        mixed = (mixed ^ (mixed >> 15)) * 39119671
        chosen = tl.umulhi(mixed ^ (mixed >> 16), tl.cast(N, tl.uint32)).to(tl.int32)
        sums += tl.load(x_ptr + chosen, mask=n + at < N, other=0.0)
    total = tl.sum(sums, 0)
    tl.store(out_ptr + draw, total / N)


def run(x, like):
    N, draws = x.shape[0], like.shape[0]
    out = torch.empty_like(like)
    block = 1024
    bootstrap_means_kernel[(draws,)](x, out, N, block, num_warps=4)
    return out
