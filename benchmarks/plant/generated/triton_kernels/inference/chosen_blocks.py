# ruff: noqa: ANN001, ANN201, D103
"""Attention of each token's heads to blocks of keys that were chosen for that token."""

import torch
import triton
import triton.language as tl


@triton.jit
def chosen_blocks_kernel(
    q_ptr, k_ptr, v_ptr, block_ptr, o_ptr, chosen, sm_scale,
    stride_qt, stride_qh, stride_kn,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    offs_h = tl.arange(0, HEADS)
    offs_d = tl.arange(0, HEAD_DIM)
    offs_n = tl.arange(0, BLOCK_N)
    q_at = token * stride_qt + offs_h[:, None] * stride_qh + offs_d[None, :]
    q = tl.load(q_ptr + q_at)
    m_i = tl.full((HEADS,), float("-inf"), dtype=tl.float32)
    l_i = tl.zeros((HEADS,), dtype=tl.float32)
    acc = tl.zeros((HEADS, HEAD_DIM), dtype=tl.float32)
    for c in range(0, chosen):
        start = tl.load(block_ptr + token * chosen + c) * BLOCK_N
        k = tl.load(k_ptr + (start + offs_n)[None, :] * stride_kn + offs_d[:, None])
        qk = tl.dot(q, k) * sm_scale
        m_new = tl.maximum(m_i, tl.max(qk, 1))
        alpha = tl.exp2(m_i - m_new)
        p = tl.exp2(qk - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + (start + offs_n)[:, None] * stride_kn + offs_d[None, :])
        acc = tl.dot(p.to(tl.bfloat16), v, acc * alpha[:, None])
        m_i = m_new
    acc = acc / l_i[:, None]
    tl.store(o_ptr + q_at, acc.to(tl.bfloat16))


def run(q, k, v, block):
    tokens, heads, dim = q.shape
    o = torch.empty_like(q)
    sm_scale = 1.44269504 * dim**-0.5
    chosen_blocks_kernel[(tokens,)](
        q, k, v, block, o, block.shape[1], sm_scale, q.stride(0), q.stride(1), k.stride(0),
        heads, dim, 64, num_warps=4, num_stages=2,
    )  # fmt: skip
    return o
