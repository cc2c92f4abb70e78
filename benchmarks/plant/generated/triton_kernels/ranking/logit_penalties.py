# ruff: noqa: ANN001, ANN201, D103
"""Scores of words made smaller by how often a text has them already."""

import torch
import triton
import triton.language as tl


@triton.jit
def logit_penalties_kernel(
    x_ptr, count_ptr, present_ptr, often_ptr, cold_ptr, out_ptr, N, block: tl.constexpr
):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    present = tl.load(present_ptr + row)
    often = tl.load(often_ptr + row)
    cold = tl.load(cold_ptr + row)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    count = tl.load(count_ptr + row * N + at, mask=at < N, other=0).to(tl.float32)
    x = x - tl.where(count > 0.0, present, 0.0) - often * count
    tl.store(out_ptr + row * N + at, (x * cold).to(tl.bfloat16), mask=at < N)


def run(x, count, present, often, cold):
    M, N = x.shape
    out = torch.empty_like(x)
    block = 2048
    logit_penalties_kernel[(triton.cdiv(N, block), M)](
        x, count, present, often, cold, out, N, block, num_warps=4
    )
    return out
