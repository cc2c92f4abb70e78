# ruff: noqa: ANN001, ANN201, D103
"""Images cut into patches of 16 by 16 pixels, each a row."""

import torch
import triton
import triton.language as tl


@triton.jit
def patches_kernel(
    x_ptr, out_ptr, C, H, W, side: tl.constexpr, patches: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    image = tl.program_id(2)
    p = tl.program_id(0) * patches + tl.arange(0, patches)
    f = tl.program_id(1) * block + tl.arange(0, block)
    wide = W // side
    count = H // side * wide
    row = p[:, None] // wide * side + f[None, :] // side % side
    column = p[:, None] % wide * side + f[None, :] % side
    plane = image * C + f[None, :] // (side * side)
    inside = (p[:, None] < count) & (f[None, :] < C * side * side)
    x = tl.load(x_ptr + (plane * H + row) * W + column, mask=inside)
    place = image * count + p
    to = place[:, None] * (C * side * side) + f[None, :]
    tl.store(out_ptr + to, x.to(tl.bfloat16), mask=inside)


def run(x):
    B, C, H, W = x.shape
    count = (H // 16) * (W // 16)
    out = torch.empty((B, count, C * 256), device=x.device, dtype=x.dtype)
    patches, block = 16, 256
    grid = (triton.cdiv(count, patches), triton.cdiv(C * 256, block), B)
    patches_kernel[grid](x, out, C, H, W, 16, patches, block, num_warps=4)
    return out
