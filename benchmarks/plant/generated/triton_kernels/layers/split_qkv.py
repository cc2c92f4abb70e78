# ruff: noqa: ANN001, ANN201, D103
"""Queries, keys and values that lie together, each put apart, head by head."""

import torch
import triton
import triton.language as tl


@triton.jit
def split_qkv_kernel(
    x_ptr, out_ptr, L, heads, dim: tl.constexpr, tokens: tl.constexpr
):  # fmt: skip
    part = tl.program_id(1) // heads
    head = tl.program_id(1) % heads
    batch = tl.program_id(2)
    t = tl.program_id(0) * tokens + tl.arange(0, tokens)
    d = tl.arange(0, dim)
    real = t[:, None] < L
    place = ((batch * L + t) * 3 * heads + tl.program_id(1))[:, None] * dim + d[None, :]
    x = tl.load(x_ptr + place, mask=real)
    row = ((part * tl.num_programs(2) + batch) * heads + head) * L
    tl.store(out_ptr + (row + t)[:, None] * dim + d[None, :], x, mask=real)


def run(x):
    B, L, three, heads, dim = x.shape
    out = torch.empty((three, B, heads, L, dim), device=x.device, dtype=x.dtype)
    tokens = 32
    split_qkv_kernel[(triton.cdiv(L, tokens), three * heads, B)](
        x, out, L, heads, dim, tokens, num_warps=4
    )
    return out
