# ruff: noqa: ANN001, ANN201, D103
"""Causal attention without a softmax, chunk by chunk, with the sums of earlier ones kept."""

import torch
import triton
import triton.language as tl


@triton.jit
def linear_attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, L,
    chunk: tl.constexpr, columns: tl.constexpr, dim: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * L * dim
    c = tl.program_id(0) * columns + tl.arange(0, columns)
    t = tl.arange(0, chunk)
    d = tl.arange(0, dim)
    state = tl.zeros((dim, columns), dtype=tl.float32)
    for n in range(0, L, chunk):
        q = tl.load(q_ptr + head + (n + t)[:, None] * dim + d[None, :])
        k = tl.load(k_ptr + head + (n + t)[None, :] * dim + d[:, None])
        v = tl.load(v_ptr + head + (n + t)[:, None] * dim + c[None, :])
        scores = tl.where(t[:, None] >= t[None, :], tl.dot(q, k), 0.0)
        out = tl.dot(scores.to(tl.bfloat16), v)
        out = tl.dot(q, state.to(tl.bfloat16), out)
        state = tl.dot(k, v, state)
        tl.store(out_ptr + head + (n + t)[:, None] * dim + c[None, :], out.to(tl.bfloat16))


def run(q, k, v):
    heads, L, dim = q.shape
    out = torch.empty_like(q)
    chunk, columns = 64, 32
    linear_attention_kernel[(triton.cdiv(dim, columns), heads)](
        q, k, v, out, L, chunk, columns, dim, num_warps=4, num_stages=3
    )
    return out
