# ruff: noqa: ANN001, ANN201, D103
"""Code points of a text in UTF-8 where its characters begin, and -1 inside of characters."""

import torch
import triton
import triton.language as tl


@triton.jit
def utf8_points_kernel(text_ptr, out_ptr, n, BLOCK_SIZE: tl.constexpr):
    i = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = i < n
    b0 = tl.load(text_ptr + i, mask=mask, other=0).to(tl.int32)
    b1 = tl.load(text_ptr + i + 1, mask=i + 1 < n, other=0).to(tl.int32) & 63
    b2 = tl.load(text_ptr + i + 2, mask=i + 2 < n, other=0).to(tl.int32) & 63
    b3 = tl.load(text_ptr + i + 3, mask=i + 3 < n, other=0).to(tl.int32) & 63
    two = ((b0 & 31) << 6) | b1
    three = ((b0 & 15) << 12) | (b1 << 6) | b2
    four = ((b0 & 7) << 18) | (b1 << 12) | (b2 << 6) | b3
    point = tl.where(b0 < 128, b0, -1)
    point = tl.where((b0 & 0xE0) == 0xC0, two, point)
    point = tl.where((b0 & 0xF0) == 0xE0, three, point)
    point = tl.where((b0 & 0xF8) == 0xF0, four, point)
    tl.store(out_ptr + i, point, mask=mask)


def run(text):
    n = text.numel()
    out = torch.empty((n,), device=text.device, dtype=torch.int32)
    BLOCK_SIZE = 1024
    utf8_points_kernel[(triton.cdiv(n, BLOCK_SIZE),)](text, out, n, BLOCK_SIZE, num_warps=4)
    return out
