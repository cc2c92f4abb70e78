# ruff: noqa: ANN001, ANN201, D103
"""Smoke carried by a wind: each point takes what was where it has come from."""

import torch
import triton
import triton.language as tl


@triton.jit
def advect_kernel(x_ptr, u_ptr, v_ptr, out_ptr, H, W, block: tl.constexpr):
    i = tl.program_id(1)
    j = tl.program_id(0) * block + tl.arange(0, block)
    real = j < W
    u = tl.load(u_ptr + i * W + j, mask=real, other=0.0)
    v = tl.load(v_ptr + i * W + j, mask=real, other=0.0)
    x = tl.minimum(tl.maximum(j.to(tl.float32) - u, 0.0), W - 1.001)
    y = tl.minimum(tl.maximum(i.to(tl.float32) - v, 0.0), H - 1.001)
    left = tl.floor(x).to(tl.int32)
    low = tl.floor(y).to(tl.int32)
    across = x - tl.floor(x)
    up = y - tl.floor(y)
    place = low * W + left
    a = tl.load(x_ptr + place, mask=real, other=0.0)
    b = tl.load(x_ptr + place + 1, mask=real, other=0.0)
    c = tl.load(x_ptr + place + W, mask=real, other=0.0)
    d = tl.load(x_ptr + place + W + 1, mask=real, other=0.0)
    one = a + (b - a) * across
    two = c + (d - c) * across
    made = one + (two - one) * up
    tl.store(out_ptr + i * W + j, made, mask=real)


def run(x, u, v):
    H, W = x.shape
    out = torch.empty_like(x)
    block = 512
    advect_kernel[(triton.cdiv(W, block), H)](x, u, v, out, H, W, block, num_warps=4)
    return out
