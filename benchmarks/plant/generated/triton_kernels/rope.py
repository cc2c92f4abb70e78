# ruff: noqa: ANN001, ANN201, D103
"""Halves of each head's vector turned by the token's angle."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, L, tokens: tl.constexpr, half: tl.constexpr
):  # fmt: skip
    t = tl.program_id(0) * tokens + tl.arange(0, tokens)
    head = tl.program_id(1)
    j = tl.arange(0, half)
    inside = t[:, None] < L
    here = head * L * 2 * half + t[:, None] * (2 * half) + j[None, :]
    cos = tl.load(cos_ptr + t[:, None] * half + j[None, :], mask=inside)
    sin = tl.load(sin_ptr + t[:, None] * half + j[None, :], mask=inside)
    one = tl.load(x_ptr + here, mask=inside).to(tl.float32)
    two = tl.load(x_ptr + here + half, mask=inside).to(tl.float32)
    first = one * cos - two * sin
    second = two * cos + one * sin
    tl.store(out_ptr + here, first.to(tl.bfloat16), mask=inside)
    tl.store(out_ptr + here + half, second.to(tl.bfloat16), mask=inside)


def run(x, cos, sin):
    heads, L, dim = x.shape
    out = torch.empty_like(x)
    tokens = 32
    rope_kernel[(triton.cdiv(L, tokens), heads)](x, cos, sin, out, L, tokens, dim // 2, num_warps=4)
    return out
