# ruff: noqa: ANN001, ANN201, D103
"""A step of a breadth-first search from below: vertices look for parents in the frontier."""

import torch
import triton
import triton.language as tl


@triton.jit
def parent_search_kernel(
    near_ptr, front_ptr, level_ptr, parent_ptr, V, degree, BLOCK: tl.constexpr
):
    v = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = v < V
    level = tl.load(level_ptr + v, mask=mask, other=0)
    parent = tl.full((BLOCK,), -1, dtype=tl.int32)
    looking = (level < 0).to(tl.int32)
    e = 0
    while (e < degree) & (tl.max(looking, 0) > 0):
        u = tl.load(near_ptr + e * V + v, mask=mask & (looking > 0), other=-1)
        word = tl.load(front_ptr + (u >> 5), mask=u >= 0, other=0)
        hit = (u >= 0) & (((word >> (u & 31)) & 1) > 0)
        parent = tl.where(hit, u.to(tl.int32), parent)
        looking = tl.where(hit | (u < 0), 0, looking)
        e += 1
    tl.store(parent_ptr + v, parent, mask=mask)


def run(near, front, level):
    degree, V = near.shape
    parent = torch.empty_like(level)
    BLOCK = 512
    parent_search_kernel[(triton.cdiv(V, BLOCK),)](
        near, front, level, parent, V, degree, BLOCK, num_warps=4
    )
    return parent
