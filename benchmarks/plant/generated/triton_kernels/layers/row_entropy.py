# ruff: noqa: ANN001, ANN201, D103
"""Entropies of the distributions that rows of logits stand for, in one pass."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_entropy_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    top = tl.full((block,), -1e30, dtype=tl.float32)
    total = tl.zeros((block,), dtype=tl.float32)
    mean = tl.zeros((block,), dtype=tl.float32)
    for n in range(0, N, block):
        x = tl.load(x_ptr + row * N + n + at, mask=n + at < N, other=-1e30).to(tl.float32)
        higher = tl.maximum(top, x)
        fallen = tl.exp(top - higher)
        chance = tl.exp(x - higher)
        total = total * fallen + chance
        mean = mean * fallen + chance * x
        top = higher
    whole = tl.max(top, 0)
    factor = tl.exp(top - whole)
    weight = tl.sum(total * factor, 0)
    entropy = whole + tl.log(weight) - tl.sum(mean * factor, 0) / weight
    tl.store(out_ptr + row, entropy)


def run(x):
    M, N = x.shape
    out = torch.empty((M,), device=x.device, dtype=torch.float32)
    block = 1024
    row_entropy_kernel[(M,)](x, out, N, block, num_warps=4)
    return out
