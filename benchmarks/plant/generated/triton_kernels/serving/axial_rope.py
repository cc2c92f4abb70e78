# ruff: noqa: ANN001, ANN201, D103
"""Patches of an image turned by their row and by their column, in pairs of neighbours."""

import torch
import triton
import triton.language as tl


@triton.jit
def axial_rope_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, L, wide, half: tl.constexpr, heads: tl.constexpr
):
    token = tl.program_id(0)
    h = tl.arange(0, heads)
    p = tl.arange(0, half)
    patch = token % L
    place = tl.where(p < half // 2, patch // wide, patch % wide)
    cos = tl.load(cos_ptr + place * half + p)
    sin = tl.load(sin_ptr + place * half + p)
    first = (token * heads + h)[:, None] * 2 * half + 2 * p[None, :]
    x = tl.load(x_ptr + first).to(tl.float32)
    y = tl.load(x_ptr + first + 1).to(tl.float32)
    one = x * cos[None, :] - y * sin[None, :]
    two = y * cos[None, :] + x * sin[None, :]
    both = tl.interleave(one, two)
    d = tl.arange(0, 2 * half)
    out = out_ptr + (token * heads + h)[:, None] * 2 * half + d[None, :]
    tl.store(out, both.to(tl.bfloat16))


def run(x, cos, sin):
    batch, L, heads, dim = x.shape
    out = torch.empty_like(x)
    wide = cos.shape[0]
    axial_rope_kernel[(batch * L,)](x, cos, sin, out, L, wide, dim // 2, heads, num_warps=4)
    return out
