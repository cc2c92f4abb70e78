# ruff: noqa: ANN001, ANN201, D103
"""Softmax over the edges of each node, which lie end to end."""

import torch
import triton
import triton.language as tl


@triton.jit
def segment_softmax_kernel(x_ptr, start_ptr, out_ptr, block: tl.constexpr):
    node = tl.program_id(0)
    first = tl.load(start_ptr + node)
    end = tl.load(start_ptr + node + 1)
    at = tl.arange(0, block)
    top = tl.full((block,), -1e30, dtype=tl.float32)
    total = tl.zeros((block,), dtype=tl.float32)
    for e in range(first, end, block):
        x = tl.load(x_ptr + e + at, mask=e + at < end, other=-1e30)
        most = tl.maximum(top, x)
        total = total * tl.exp(top - most) + tl.exp(x - most)
        top = most
    most_of_all = tl.max(top, 0)
    factor = 1.0 / tl.sum(total * tl.exp(top - most_of_all), 0)
    for e in range(first, end, block):
        x = tl.load(x_ptr + e + at, mask=e + at < end, other=-1e30)
        tl.store(out_ptr + e + at, tl.exp(x - most_of_all) * factor, mask=e + at < end)


def run(x, start):
    out = torch.empty_like(x)
    block = 256
    segment_softmax_kernel[(start.shape[0] - 1,)](x, start, out, block, num_warps=2)
    return out
