# ruff: noqa: ANN001, ANN201, D103
"""Images read between their points, where a field of places says; outside is nothing."""

import torch
import triton
import triton.language as tl


@triton.jit
def grid_sample_kernel(x_ptr, y_at_ptr, x_at_ptr, out_ptr, H, W, C, points, channels: tl.constexpr):
    point = tl.program_id(0)
    c = tl.arange(0, channels)
    image = point // points
    y = tl.load(y_at_ptr + point)
    x = tl.load(x_at_ptr + point)
    low = tl.floor(y)
    left = tl.floor(x)
    total = tl.zeros((channels,), dtype=tl.float32)
    for corner in range(4):
        row = low.to(tl.int32) + corner // 2
        column = left.to(tl.int32) + corner % 2
        near = (1.0 - tl.abs(y - row)) * (1.0 - tl.abs(x - column))
        real = (row >= 0) & (row < H) & (column >= 0) & (column < W)
        place = ((image * H + row) * W + column) * C + c
        pixel = tl.load(x_ptr + place, mask=real & (c < C), other=0.0)
        total += pixel.to(tl.float32) * near
    tl.store(out_ptr + point * C + c, total.to(tl.bfloat16), mask=c < C)


def run(x, y_at, x_at):
    batch, H, W, C = x.shape
    points = y_at.shape[1]
    out = torch.empty((batch, points, C), device=x.device, dtype=x.dtype)
    channels = triton.next_power_of_2(C)
    grid_sample_kernel[(batch * points,)](
        x, y_at, x_at, out, H, W, C, points, channels, num_warps=1
    )
    return out
