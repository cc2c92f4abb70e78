# ruff: noqa: ANN001, ANN201, D103
"""Attention with a bias of each pair of positions, as of pair representations."""

import torch
import triton
import triton.language as tl


@triton.jit
def biased_attention_kernel(
    q_ptr, k_ptr, v_ptr, bias_ptr, out_ptr, N, scale,
    rows: tl.constexpr, columns: tl.constexpr, dim: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    d = tl.arange(0, dim)
    q = tl.load(q_ptr + head * N * dim + i[:, None] * dim + d[None, :])
    top = tl.full((rows,), -1e30, dtype=tl.float32)
    total = tl.zeros((rows,), dtype=tl.float32)
    out = tl.zeros((rows, dim), dtype=tl.float32)
    for n in range(0, N, columns):
        j = n + tl.arange(0, columns)
        k = tl.load(k_ptr + head * N * dim + j[None, :] * dim + d[:, None])
        bias = tl.load(bias_ptr + head * N * N + i[:, None] * N + j[None, :])
        scores = tl.dot(q, k) * scale + bias.to(tl.float32) * 1.44269504
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        factor = tl.exp2(top - higher)
        total = total * factor + tl.sum(weights, 1)
        v = tl.load(v_ptr + head * N * dim + j[:, None] * dim + d[None, :])
        out = tl.dot(weights.to(tl.bfloat16), v, out * factor[:, None])
        top = higher
    out = out / total[:, None]
    tl.store(out_ptr + head * N * dim + i[:, None] * dim + d[None, :], out.to(tl.bfloat16))


def run(q, k, v, bias):
    heads, N, dim = q.shape
    out = torch.empty_like(q)
    rows, columns = 128, 64
    scale = 1.44269504 / dim**0.5
    biased_attention_kernel[(triton.cdiv(N, rows), heads)](
        q, k, v, bias, out, N, scale, rows, columns, dim, num_warps=8, num_stages=3
    )
    return out
