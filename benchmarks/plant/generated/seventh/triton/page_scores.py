# ruff: noqa: ANN001, ANN201, D103
"""Upper bounds of a query's products with pages of keys, of which bounds by element are kept."""

import torch
import triton
import triton.language as tl


@triton.jit
def page_scores_kernel(
    q_ptr, low_ptr, high_ptr, out_ptr, pages,
    stride_b, BLOCK_P: tl.constexpr, HEAD_DIM: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    offs_p = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(q_ptr + head * HEAD_DIM + offs_d).to(tl.float32)
    place = head * stride_b + offs_p[:, None] * HEAD_DIM + offs_d[None, :]
    mask = offs_p[:, None] < pages
    low = tl.load(low_ptr + place, mask=mask, other=0.0).to(tl.float32)
    high = tl.load(high_ptr + place, mask=mask, other=0.0).to(tl.float32)
    bound = tl.maximum(q[None, :] * low, q[None, :] * high)
    tl.store(out_ptr + head * pages + offs_p, tl.sum(bound, 1), mask=offs_p < pages)


def run(q, low, high):
    heads, pages, dim = low.shape
    out = torch.empty((heads, pages), device=q.device, dtype=torch.float32)
    BLOCK_P = 64
    page_scores_kernel[(triton.cdiv(pages, BLOCK_P), heads)](
        q, low, high, out, pages, low.stride(0), BLOCK_P, dim, num_warps=4
    )
    return out
