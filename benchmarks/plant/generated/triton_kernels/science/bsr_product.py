# ruff: noqa: ANN001, ANN201, D103
"""A matrix of which some blocks are kept, as many in each row of blocks, times a dense one."""

import torch
import triton
import triton.language as tl


@triton.jit
def bsr_product_kernel(
    block_ptr, place_ptr, b_ptr, out_ptr, N, kept, edge: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    row = tl.program_id(1)
    i = tl.arange(0, edge)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    real = j[None, :] < N
    sums = tl.zeros((edge, columns), dtype=tl.float32)
    for e in range(0, kept):
        place = tl.load(place_ptr + row * kept + e)
        held = (row * kept + e) * edge * edge
        a = tl.load(block_ptr + held + i[:, None] * edge + i[None, :])
        b = tl.load(b_ptr + (place * edge + i)[:, None] * N + j[None, :], mask=real, other=0.0)
        sums = tl.dot(a, b, sums)
    made = sums.to(tl.bfloat16)
    tl.store(out_ptr + (row * edge + i)[:, None] * N + j[None, :], made, mask=real)


def run(blocks, place, b):
    (R, kept), edge, N = place.shape, blocks.shape[2], b.shape[1]
    out = torch.empty((R * edge, N), device=b.device, dtype=b.dtype)
    columns = 128
    bsr_product_kernel[(triton.cdiv(N, columns), R)](
        blocks, place, b, out, N, kept, edge, columns, num_warps=4, num_stages=3
    )
    return out
