# ruff: noqa: ANN001, ANN201, D103
"""Gradients of attention's keys and values, from the logarithm of each row's sum."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kv_grad_kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, whole_ptr, delta_ptr, out_ptr, N, scale,
    rows: tl.constexpr, columns: tl.constexpr, dim: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * N
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    d = tl.arange(0, dim)
    key = tl.load(k_ptr + (head + j)[:, None] * dim + d[None, :])
    value = tl.load(v_ptr + (head + j)[:, None] * dim + d[None, :])
    dk = tl.zeros((columns, dim), dtype=tl.float32)
    dv = tl.zeros((columns, dim), dtype=tl.float32)
    for n in range(0, N, rows):
        i = head + n + tl.arange(0, rows)
        query = tl.load(q_ptr + i[:, None] * dim + d[None, :])
        do = tl.load(do_ptr + i[:, None] * dim + d[None, :])
        whole = tl.load(whole_ptr + i)
        delta = tl.load(delta_ptr + i)
        weight = tl.exp2(tl.dot(key, tl.trans(query)) * (scale * 1.44269504) - whole[None, :])
        dv = tl.dot(weight.to(tl.bfloat16), do, dv)
        change = weight * (tl.dot(value, tl.trans(do)) - delta[None, :]) * scale
        dk = tl.dot(change.to(tl.bfloat16), query, dk)
    tl.store(out_ptr + (head + j)[:, None] * dim + d[None, :], dk)
    end = tl.num_programs(1) * N
    tl.store(out_ptr + (end + head + j)[:, None] * dim + d[None, :], dv)


def run(q, k, v, do, whole, delta):
    heads, N, dim = q.shape
    out = torch.empty((2, heads, N, dim), device=q.device, dtype=torch.float32)
    rows, columns = 64, 128
    attention_kv_grad_kernel[(N // columns, heads)](
        q, k, v, do, whole, delta, out, N, dim**-0.5, rows, columns, dim,
        num_warps=8, num_stages=2,
    )  # fmt: skip
    return out
