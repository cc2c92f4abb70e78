# ruff: noqa: ANN001, ANN201, D103
"""Likelihoods of series of returns whose variance follows its past and the last return."""

import torch
import triton
import triton.language as tl


@triton.jit
def garch_kernel(x_ptr, level_ptr, react_ptr, keep_ptr, out_ptr, L, M, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    level = tl.load(level_ptr + at, mask=at < M, other=1.0)
    react = tl.load(react_ptr + at, mask=at < M, other=0.1)
    keep = tl.load(keep_ptr + at, mask=at < M, other=0.1)
    spread = level / (1.0 - react - keep)
    total = tl.zeros((block,), dtype=tl.float32)
    for t in range(0, L):
        x = tl.load(x_ptr + t * M + at, mask=at < M, other=0.0)
        total += tl.log(spread) + x * x / spread
        spread = level + react * x * x + keep * spread
    tl.store(out_ptr + at, -0.5 * total, mask=at < M)


def run(x, level, react, keep):
    L, M = x.shape
    out = torch.empty_like(level)
    block = 128
    garch_kernel[(triton.cdiv(M, block),)](x, level, react, keep, out, L, M, block, num_warps=4)
    return out
