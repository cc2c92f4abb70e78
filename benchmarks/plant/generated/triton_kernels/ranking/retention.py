# ruff: noqa: ANN001, ANN201, D103
"""Attention without a softmax, which fades with the distance at another rate in each head."""

import torch
import triton
import triton.language as tl


@triton.jit
def retention_kernel(
    q_ptr, k_ptr, v_ptr, fade_ptr, out_ptr, N, scale,
    dim: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    first = (tl.num_programs(0) - 1 - tl.program_id(0)) * rows
    i = first + tl.arange(0, rows)
    j = tl.arange(0, columns)
    d = tl.arange(0, dim)
    whole = head * N * dim
    fade = tl.load(fade_ptr + head)
    q = tl.load(q_ptr + whole + i[:, None] * dim + d[None, :])
    out = tl.zeros((rows, dim), dtype=tl.float32)
    for n in range(0, first + rows, columns):
        k = tl.load(k_ptr + whole + (n + j)[None, :] * dim + d[:, None])
        v = tl.load(v_ptr + whole + (n + j)[:, None] * dim + d[None, :])
        apart = i[:, None] - (n + j)[None, :]
        share = tl.where(apart >= 0, tl.exp2(fade * apart.to(tl.float32)), 0.0)
        weights = tl.dot(q, k) * scale * share
        out = tl.dot(weights.to(tl.bfloat16), v, out)
    tl.store(out_ptr + whole + i[:, None] * dim + d[None, :], out.to(tl.bfloat16))


def run(q, k, v, fade):
    heads, N, dim = q.shape
    out = torch.empty_like(q)
    rows, columns = 128, 64
    retention_kernel[(triton.cdiv(N, rows), heads)](
        q, k, v, fade, out, N, dim**-0.5, dim, rows, columns, num_warps=8, num_stages=3
    )
    return out
