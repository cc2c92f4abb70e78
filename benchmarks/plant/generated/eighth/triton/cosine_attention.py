# ruff: noqa: ANN001, ANN201, D103
"""Attention within windows of 64 patches by the angles of queries and keys, as in Swin v2."""

import torch
import triton
import triton.language as tl


@triton.jit
def cosine_attention_kernel(
    q_ptr, k_ptr, v_ptr, warmth_ptr, out_ptr, heads, LENGTH: tl.constexpr, DIM: tl.constexpr
):
    window = tl.program_id(0).to(tl.int64)
    rows = tl.arange(0, LENGTH)
    cols = tl.arange(0, DIM)
    at = window * LENGTH * DIM + rows[:, None] * DIM + cols[None, :]
    q = tl.load(q_ptr + at)
    k = tl.load(k_ptr + at)
    v = tl.load(v_ptr + at)
    q32, k32 = q.to(tl.float32), k.to(tl.float32)
    by_q = tl.rsqrt(tl.sum(q32 * q32, 1) + 1e-6)
    by_k = tl.rsqrt(tl.sum(k32 * k32, 1) + 1e-6)
    warmth = tl.load(warmth_ptr + tl.program_id(0) % heads)
    score = tl.dot(q, tl.trans(k)) * by_q[:, None] * by_k[None, :] * warmth
    score = tl.exp(score - tl.max(score, 1)[:, None])
    total = tl.sum(score, 1)
    made = tl.dot(score.to(tl.bfloat16), v)
    tl.store(out_ptr + at, (made / total[:, None]).to(tl.bfloat16))


def run(q, k, v, warmth):
    windows, length, dim = q.shape
    out = torch.empty_like(q)
    cosine_attention_kernel[(windows,)](
        q, k, v, warmth, out, warmth.shape[0], length, dim, num_warps=4
    )
    return out
