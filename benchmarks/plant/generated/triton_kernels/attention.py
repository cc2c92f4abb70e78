# ruff: noqa: ANN001, ANN201, D103
"""Attention forward, softmax kept up to date tile by tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, N, scale,
    rows: tl.constexpr, columns: tl.constexpr, dim: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * N * dim
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    d = tl.arange(0, dim)
    q = tl.load(q_ptr + head + i[:, None] * dim + d[None, :])
    top = tl.full((rows,), -1e30, dtype=tl.float32)
    total = tl.zeros((rows,), dtype=tl.float32)
    out = tl.zeros((rows, dim), dtype=tl.float32)
    for n in range(0, N, columns):
        j = n + tl.arange(0, columns)
        k = tl.load(k_ptr + head + j[None, :] * dim + d[:, None])
        scores = tl.dot(q, k) * scale
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        factor = tl.exp2(top - higher)
        total = total * factor + tl.sum(weights, 1)
        out = out * factor[:, None]
        v = tl.load(v_ptr + head + j[:, None] * dim + d[None, :])
        out = tl.dot(weights.to(tl.bfloat16), v, out)
        top = higher
    out = out / total[:, None]
    tl.store(out_ptr + head + i[:, None] * dim + d[None, :], out.to(tl.bfloat16))


def run(q, k, v):
    heads, N, dim = q.shape
    out = torch.empty_like(q)
    rows, columns = 128, 64
    scale = 1.44269504 / dim**0.5
    attention_kernel[(triton.cdiv(N, rows), heads)](
        q, k, v, out, N, scale, rows, columns, dim, num_warps=8, num_stages=3
    )
    return out
