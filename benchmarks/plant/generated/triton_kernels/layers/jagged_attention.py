# ruff: noqa: ANN001, ANN201, D103
"""Attention inside sequences of different lengths that lie end to end."""

import torch
import triton
import triton.language as tl


@triton.jit
def jagged_attention_kernel(
    q_ptr, k_ptr, v_ptr, offset_ptr, out_ptr, heads, scale,
    rows: tl.constexpr, columns: tl.constexpr, dim: tl.constexpr,
):  # fmt: skip
    sequence = tl.program_id(2)
    head = tl.program_id(1)
    first = tl.load(offset_ptr + sequence)
    end = tl.load(offset_ptr + sequence + 1)
    i = first + tl.program_id(0) * rows + tl.arange(0, rows)
    d = tl.arange(0, dim)
    if first + tl.program_id(0) * rows < end:
        place = (i * heads + head)[:, None] * dim + d[None, :]
        query = tl.load(q_ptr + place, mask=i[:, None] < end, other=0.0)
        top = tl.full((rows,), -1e30, dtype=tl.float32)
        total = tl.zeros((rows,), dtype=tl.float32)
        sums = tl.zeros((rows, dim), dtype=tl.float32)
        for n in range(first, end, columns):
            j = n + tl.arange(0, columns)
            row = (j * heads + head) * dim
            key = tl.load(k_ptr + row[None, :] + d[:, None], mask=j[None, :] < end, other=0.0)
            scores = tl.where(j[None, :] < end, tl.dot(query, key) * scale, -1e30)
            higher = tl.maximum(top, tl.max(scores, 1))
            weight = tl.exp2(scores - higher[:, None])
            fallen = tl.exp2(top - higher)
            total = total * fallen + tl.sum(weight, 1)
            value = tl.load(v_ptr + row[:, None] + d[None, :], mask=j[:, None] < end, other=0.0)
            sums = tl.dot(weight.to(tl.bfloat16), value, sums * fallen[:, None])
            top = higher
        made = sums / total[:, None]
        tl.store(out_ptr + place, made.to(tl.bfloat16), mask=i[:, None] < end)


def run(q, k, v, offset):
    R, heads, dim = q.shape
    sequences, out = offset.shape[0] - 1, torch.empty_like(q)
    rows, columns = 128, 64
    scale = 1.44269504 / dim**0.5
    jagged_attention_kernel[(triton.cdiv(4 * R // sequences, rows), heads, sequences)](
        q, k, v, offset, out, heads, scale, rows, columns, dim, num_warps=8, num_stages=2
    )
    return out
