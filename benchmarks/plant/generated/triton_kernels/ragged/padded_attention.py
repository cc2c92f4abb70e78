# ruff: noqa: ANN001, ANN201, D103
"""Attention in a batch of sentences that are padded, each to the end of its own length."""

import torch
import triton
import triton.language as tl


@triton.jit
def padded_attention_kernel(
    q_ptr, k_ptr, v_ptr, length_ptr, out_ptr, heads, N, scale,
    dim: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.arange(0, columns)
    d = tl.arange(0, dim)
    whole = head * N * dim
    length = tl.load(length_ptr + head // heads)
    q = tl.load(q_ptr + whole + i[:, None] * dim + d[None, :])
    top = tl.full((rows,), -1e30, dtype=tl.float32)
    total = tl.zeros((rows,), dtype=tl.float32)
    out = tl.zeros((rows, dim), dtype=tl.float32)
    for n in range(0, length, columns):
        real = n + j < length
        k = tl.load(
            k_ptr + whole + (n + j)[None, :] * dim + d[:, None], mask=real[None, :], other=0.0
        )
        v = tl.load(
            v_ptr + whole + (n + j)[:, None] * dim + d[None, :], mask=real[:, None], other=0.0
        )
        scores = tl.where(real[None, :], tl.dot(q, k) * scale, -1e30)
        most = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - most[:, None])
        fade = tl.exp2(top - most)
        total = total * fade + tl.sum(weights, 1)
        out = tl.dot(weights.to(tl.bfloat16), v, out * fade[:, None])
        top = most
    made = out / total[:, None]
    tl.store(out_ptr + whole + i[:, None] * dim + d[None, :], made.to(tl.bfloat16))


def run(q, k, v, length):
    batch, heads, N, dim = q.shape
    out = torch.empty_like(q)
    rows, columns = 128, 64
    padded_attention_kernel[(triton.cdiv(N, rows), batch * heads)](
        q, k, v, length, out, heads, N, 1.44269504 / dim**0.5, dim, rows, columns,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return out
