# ruff: noqa: ANN001, ANN201, D103
"""A convolution of nine taps as nine products of pixels by features."""

import torch
import triton
import triton.language as tl


@triton.jit
def conv2d_kernel(
    x_ptr, w_ptr, out_ptr, H, W, C, F,
    pixels: tl.constexpr, features: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    wide, high = W - 2, H - 2
    p = tl.program_id(0) * pixels + tl.arange(0, pixels)
    f = tl.program_id(1) * features + tl.arange(0, features)
    d = tl.arange(0, depth)
    image = tl.program_id(2)
    sums = tl.zeros((pixels, features), dtype=tl.float32)
    inside = p < wide * high
    for step in range(0, 9 * (C // depth)):
        tap, c = step // (C // depth), step % (C // depth) * depth
        place = image * H * W + (p // wide + tap // 3) * W + p % wide + tap % 3
        x = tl.load(x_ptr + place[:, None] * C + (c + d)[None, :], mask=inside[:, None], other=0.0)
        w = tl.load(w_ptr + (tap * C + c + d)[:, None] * F + f[None, :])
        sums = tl.dot(x, w, sums)
    place = image * wide * high + p
    tl.store(out_ptr + place[:, None] * F + f[None, :], sums.to(tl.float16), mask=inside[:, None])


def run(x, w):
    (B, H, W, C), F = x.shape, w.shape[2]
    out = torch.empty((B, H - 2, W - 2, F), device=x.device, dtype=x.dtype)
    pixels, features, depth = 128, 128, 64
    grid = (triton.cdiv((H - 2) * (W - 2), pixels), triton.cdiv(F, features), B)
    conv2d_kernel[grid](x, w, out, H, W, C, F, pixels, features, depth, num_warps=8, num_stages=3)
    return out
