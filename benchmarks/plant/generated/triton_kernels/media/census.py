# ruff: noqa: ANN001, ANN201, D103
"""Which of the 24 points around each are darker, as bits by which stereo pictures are matched."""

import torch
import triton
import triton.language as tl


@triton.jit
def census_kernel(x_ptr, out_ptr, H, W, block: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    own = tl.load(x_ptr + row * W + at, mask=at < W, other=0)
    bits = tl.zeros((block,), dtype=tl.int32)
    for down in tl.static_range(5):
        for across in tl.static_range(5):
            y = row + down - 2
            x = at + across - 2
            inside = (y >= 0) & (y < H) & (x >= 0) & (x < W)
            other = tl.load(x_ptr + y * W + x, mask=inside, other=255)
            if down * 5 + across != 12:
                bits = bits * 2 + tl.where(other < own, 1, 0)
    tl.store(out_ptr + row * W + at, bits, mask=at < W)


def run(x):
    H, W = x.shape
    out = torch.empty((H, W), device=x.device, dtype=torch.int32)
    block = 1024
    census_kernel[(triton.cdiv(W, block), H)](x, out, H, W, block, num_warps=4)
    return out
