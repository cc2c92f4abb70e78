# ruff: noqa: ANN001, ANN201, D103
"""Attention to parts of the keys, put together by the logarithms of their sums."""

import torch
import triton
import triton.language as tl


@triton.jit
def merge_parts_kernel(x_ptr, whole_ptr, out_ptr, R, parts, dim: tl.constexpr, rows: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    d = tl.arange(0, dim)
    real = i < R
    top = tl.full((rows,), -1e30, dtype=tl.float32)
    total = tl.zeros((rows,), dtype=tl.float32)
    sums = tl.zeros((rows, dim), dtype=tl.float32)
    for part in range(0, parts):
        whole = tl.load(whole_ptr + part * R + i, mask=real, other=0.0)
        place = (part * R + i)[:, None] * dim + d[None, :]
        x = tl.load(x_ptr + place, mask=real[:, None], other=0.0)
        higher = tl.maximum(top, whole)
        fallen = tl.exp(top - higher)
        weight = tl.exp(whole - higher)
        total = total * fallen + weight
        sums = sums * fallen[:, None] + x * weight[:, None]
        top = higher
    made = sums / total[:, None]
    tl.store(out_ptr + i[:, None] * dim + d[None, :], made.to(tl.bfloat16), mask=real[:, None])


def run(x, whole):
    parts, R, dim = x.shape
    out = torch.empty((R, dim), device=x.device, dtype=torch.bfloat16)
    rows = 16
    merge_parts_kernel[(triton.cdiv(R, rows),)](x, whole, out, R, parts, dim, rows, num_warps=4)
    return out
