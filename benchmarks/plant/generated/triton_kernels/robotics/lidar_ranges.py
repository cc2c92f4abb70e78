# ruff: noqa: ANN001, ANN201, D103
"""How far beams run over a map before they meet something, in steps of fixed-point numbers."""

import torch
import triton
import triton.language as tl


@triton.jit
def lidar_ranges_kernel(
    map_ptr, x_ptr, y_ptr, dx_ptr, dy_ptr, out_ptr, n_beams, width, max_steps, BLOCK: tl.constexpr
):
    beam = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = beam < n_beams
    x = tl.load(x_ptr + beam, mask=mask, other=0)
    y = tl.load(y_ptr + beam, mask=mask, other=0)
    dx = tl.load(dx_ptr + beam, mask=mask, other=0)
    dy = tl.load(dy_ptr + beam, mask=mask, other=0)
    flying = mask
    steps = tl.zeros((BLOCK,), dtype=tl.int32)
    n = 0
    while (n < max_steps) & (tl.max(flying.to(tl.int32), 0) == 1):
        cell = (y >> 16) * width + (x >> 16)
        full = tl.load(map_ptr + cell, mask=flying, other=1)
        flying = flying & (full == 0)
        steps += flying.to(tl.int32)
        x += dx
        y += dy
        n += 1
    tl.store(out_ptr + beam, steps, mask=mask)


def run(grid_map, x, y, dx, dy):
    n_beams = x.shape[0]
    out = torch.empty_like(x)
    BLOCK = 256
    lidar_ranges_kernel[(triton.cdiv(n_beams, BLOCK),)](
        grid_map, x, y, dx, dy, out, n_beams, grid_map.shape[1], 200, BLOCK, num_warps=4
    )
    return out
