# ruff: noqa: ANN001, ANN201, D103
"""Each head of queries by its own length, then turned by its place."""

import torch
import triton
import triton.language as tl


@triton.jit
def qk_norm_rope_kernel(
    x_ptr, w_ptr, cos_ptr, sin_ptr, out_ptr, R, heads,
    rows: tl.constexpr, half: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    h = tl.arange(0, half)
    place = i[:, None] * 2 * half + h[None, :]
    turn = i[:, None] // heads * half + h[None, :]
    real = i[:, None] < R
    one = tl.load(x_ptr + place, mask=real, other=0.0).to(tl.float32)
    two = tl.load(x_ptr + place + half, mask=real, other=0.0).to(tl.float32)
    cos = tl.load(cos_ptr + turn, mask=real, other=0.0)
    sin = tl.load(sin_ptr + turn, mask=real, other=0.0)
    square = (tl.sum(one * one, 1) + tl.sum(two * two, 1)) / (2 * half)
    factor = tl.rsqrt(square + 1e-6)
    one = one * factor[:, None] * tl.load(w_ptr + h)[None, :]
    two = two * factor[:, None] * tl.load(w_ptr + half + h)[None, :]
    left = one * cos - two * sin
    right = two * cos + one * sin
    tl.store(out_ptr + place, left.to(tl.bfloat16), mask=real)
    tl.store(out_ptr + place + half, right.to(tl.bfloat16), mask=real)


def run(x, w, cos, sin):
    tokens, heads, dim = x.shape
    out = torch.empty_like(x)
    rows = 16
    qk_norm_rope_kernel[(triton.cdiv(tokens * heads, rows),)](
        x, w, cos, sin, out, tokens * heads, heads, rows, dim // 2, num_warps=4
    )
    return out
