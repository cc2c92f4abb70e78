# ruff: noqa: ANN001, ANN201, D103
"""Which earlier tokens a token should look at: rectified products of light heads, weighed."""

import torch
import triton
import triton.language as tl


@triton.jit
def indexer_scores_kernel(
    q_ptr, k_ptr, w_ptr, out_ptr, S,
    HEADS: tl.constexpr, DIM: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    rs = tl.program_id(0) * BLOCK_S + tl.arange(0, BLOCK_S)
    rt = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    rd = tl.arange(0, DIM)
    k = tl.load(k_ptr + rs[None, :] * DIM + rd[:, None], mask=rs[None, :] < S, other=0.0)
    acc = tl.zeros((BLOCK_T, BLOCK_S), dtype=tl.float32)
    for h in range(0, HEADS):
        q = tl.load(q_ptr + rt[:, None] * (HEADS * DIM) + h * DIM + rd[None, :])
        w = tl.load(w_ptr + rt * HEADS + h)
        s = tl.dot(q, k)
        acc += w[:, None] * tl.maximum(s, 0.0)
    tl.store(out_ptr + rt[:, None] * S + rs[None, :], acc, mask=rs[None, :] < S)


def run(q, k, w):
    (tokens, heads, dim), S = q.shape, k.shape[0]
    out = torch.empty((tokens, S), device=q.device, dtype=torch.float32)
    BLOCK_T, BLOCK_S = 64, 128
    indexer_scores_kernel[(triton.cdiv(S, BLOCK_S), tokens // BLOCK_T)](
        q, k, w, out, S, heads, dim, BLOCK_T, BLOCK_S, num_warps=4, num_stages=3
    )
    return out
