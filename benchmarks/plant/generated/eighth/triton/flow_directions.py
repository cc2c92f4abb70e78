# ruff: noqa: ANN001, ANN201, D103
"""Where water flows from each cell of a map of heights: to its steepest neighbour of eight."""

import torch
import triton
import triton.language as tl


@triton.jit
def flow_directions_kernel(height_ptr, flow_ptr, H, W, BLOCK: tl.constexpr):
    y = tl.program_id(1)
    x = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = x < W
    own = tl.load(height_ptr + y * W + x, mask=mask, other=0)
    steepest = tl.zeros((BLOCK,), dtype=tl.float32)
    flow = tl.full((BLOCK,), -1, dtype=tl.int32)
    for n in tl.static_range(9):
        dy, dx = n // 3 - 1, n % 3 - 1
        if n != 4:
            there = mask & (y + dy >= 0) & (y + dy < H) & (x + dx >= 0) & (x + dx < W)
            other = tl.load(height_ptr + (y + dy) * W + x + dx, mask=there, other=100000)
            drop = (own - other).to(tl.float32)
            if dy * dx != 0:
                drop = drop * 0.70710678
            steeper = drop > steepest
            steepest = tl.where(steeper, drop, steepest)
            flow = tl.where(steeper, n, flow)
    tl.store(flow_ptr + y * W + x, flow.to(tl.int8), mask=mask)


def run(height):
    H, W = height.shape
    flow = torch.empty((H, W), device=height.device, dtype=torch.int8)
    BLOCK = 1024
    flow_directions_kernel[(triton.cdiv(W, BLOCK), H)](height, flow, H, W, BLOCK, num_warps=4)
    return flow
