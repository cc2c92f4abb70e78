# ruff: noqa: ANN001, ANN201, D103
"""Frames of a video in red, green and blue, from brightness and colours of half the size."""

import torch
import triton
import triton.language as tl


@triton.jit
def yuv_frames_kernel(y_ptr, u_ptr, v_ptr, out_ptr, H, W, block: tl.constexpr):
    line = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    frame = line // H
    row = line % H
    real = at < W
    half = (frame * (H // 2) + row // 2) * (W // 2) + at // 2
    y = tl.load(y_ptr + line * W + at, mask=real, other=0).to(tl.float32) - 16.0
    u = tl.load(u_ptr + half, mask=real, other=128).to(tl.float32) - 128.0
    v = tl.load(v_ptr + half, mask=real, other=128).to(tl.float32) - 128.0
    red = 1.164 * y + 1.596 * v
    green = 1.164 * y - 0.392 * u - 0.813 * v
    blue = 1.164 * y + 2.017 * u
    place = out_ptr + (frame * 3 * H + row) * W + at
    red = tl.minimum(tl.maximum(red + 0.5, 0.0), 255.0)
    green = tl.minimum(tl.maximum(green + 0.5, 0.0), 255.0)
    blue = tl.minimum(tl.maximum(blue + 0.5, 0.0), 255.0)
    tl.store(place, red.to(tl.uint8), mask=real)
    tl.store(place + H * W, green.to(tl.uint8), mask=real)
    tl.store(place + 2 * H * W, blue.to(tl.uint8), mask=real)


def run(y, u, v):
    frames, H, W = y.shape
    out = torch.empty((frames, 3, H, W), device=y.device, dtype=torch.uint8)
    block = 2048
    yuv_frames_kernel[(triton.cdiv(W, block), frames * H)](y, u, v, out, H, W, block, num_warps=4)
    return out
