# ruff: noqa: ANN001, ANN201, D103
"""Causal attention by the difference of two softmaxes, of half of a head each."""

import torch
import triton
import triton.language as tl


@triton.jit
def differential_attention_kernel(
    q_ptr, k_ptr, v_ptr, share_ptr, out_ptr, N, scale,
    dim: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * rows
    head = tl.program_id(1)
    i = first + tl.arange(0, rows)
    j = tl.arange(0, columns)
    d = tl.arange(0, dim)
    e = tl.arange(0, 2 * dim)
    whole = head * N * 2 * dim
    one = tl.load(q_ptr + whole + i[:, None] * 2 * dim + d[None, :])
    two = tl.load(q_ptr + whole + i[:, None] * 2 * dim + dim + d[None, :])
    top_one = tl.full((rows,), -1e30, dtype=tl.float32)
    top_two = tl.full((rows,), -1e30, dtype=tl.float32)
    total_one = tl.zeros((rows,), dtype=tl.float32)
    total_two = tl.zeros((rows,), dtype=tl.float32)
    out_one = tl.zeros((rows, 2 * dim), dtype=tl.float32)
    out_two = tl.zeros((rows, 2 * dim), dtype=tl.float32)
    for n in range(0, first + rows, columns):
        place = whole + (n + j)[None, :] * 2 * dim + d[:, None]
        v = tl.load(v_ptr + whole + (n + j)[:, None] * 2 * dim + e[None, :])
        hidden = (n + j)[None, :] > i[:, None]
        scores = tl.where(hidden, -1e30, tl.dot(one, tl.load(k_ptr + place)) * scale)
        most = tl.maximum(top_one, tl.max(scores, 1))
        weights = tl.exp2(scores - most[:, None])
        fade = tl.exp2(top_one - most)
        total_one = total_one * fade + tl.sum(weights, 1)
        out_one = tl.dot(weights.to(tl.bfloat16), v, out_one * fade[:, None])
        top_one = most
        scores = tl.where(hidden, -1e30, tl.dot(two, tl.load(k_ptr + place + dim)) * scale)
        most = tl.maximum(top_two, tl.max(scores, 1))
        weights = tl.exp2(scores - most[:, None])
        fade = tl.exp2(top_two - most)
        total_two = total_two * fade + tl.sum(weights, 1)
        out_two = tl.dot(weights.to(tl.bfloat16), v, out_two * fade[:, None])
        top_two = most
    share = tl.load(share_ptr + head)
    out = out_one / total_one[:, None] - out_two / total_two[:, None] * share
    tl.store(out_ptr + whole + i[:, None] * 2 * dim + e[None, :], out.to(tl.bfloat16))


def run(q, k, v, share):
    heads, N, both = q.shape
    out = torch.empty_like(v)
    rows, columns = 64, 64
    differential_attention_kernel[(triton.cdiv(N, rows), heads)](
        q, k, v, share, out, N, 1.44269504 / (both // 2) ** 0.5,
        both // 2, rows, columns, num_warps=4, num_stages=2,
    )  # fmt: skip
    return out
