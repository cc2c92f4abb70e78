# ruff: noqa: ANN001, ANN201, D103
"""How often a polygon of whole numbers winds around each of many points."""

import torch
import triton
import triton.language as tl


@triton.jit
def winding_numbers_kernel(x_ptr, y_ptr, edge_ptr, out_ptr, n_points, n_edges, BLOCK: tl.constexpr):
    p = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = p < n_points
    px = tl.load(x_ptr + p, mask=inside, other=0)
    py = tl.load(y_ptr + p, mask=inside, other=0)
    winding = tl.zeros((BLOCK,), dtype=tl.int32)
    for e in range(0, n_edges):
        x0 = tl.load(edge_ptr + e * 4)
        y0 = tl.load(edge_ptr + e * 4 + 1)
        x1 = tl.load(edge_ptr + e * 4 + 2)
        y1 = tl.load(edge_ptr + e * 4 + 3)
        side = (x1 - x0) * (py - y0) - (px - x0) * (y1 - y0)
        up = (y0 <= py) & (y1 > py) & (side > 0)
        down = (y0 > py) & (y1 <= py) & (side < 0)
        winding += up.to(tl.int32) - down.to(tl.int32)
    tl.store(out_ptr + p, winding, mask=inside)


def run(x, y, edge):
    out = torch.empty_like(x)
    BLOCK = 512
    winding_numbers_kernel[(triton.cdiv(x.shape[0], BLOCK),)](
        x, y, edge, out, x.shape[0], edge.shape[0], BLOCK, num_warps=4
    )
    return out
