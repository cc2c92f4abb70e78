# ruff: noqa: ANN001, ANN201, D103
"""One new token's attention to keys and values in pages; 16 heads share each of their groups."""

import torch
import triton
import triton.language as tl


@triton.jit
def paged_decode_kernel(
    q_ptr, k_ptr, v_ptr, table_ptr, length_ptr, out_ptr, G, T, scale,
    share: tl.constexpr, dim: tl.constexpr, page: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    sequence = tl.program_id(1)
    length = tl.load(length_ptr + sequence)
    h = tl.arange(0, share)
    d = tl.arange(0, dim)
    head = (sequence * G + group) * share + h
    q = tl.load(q_ptr + head[:, None] * dim + d[None, :])
    top = tl.full((share,), -1e30, dtype=tl.float32)
    total = tl.zeros((share,), dtype=tl.float32)
    out = tl.zeros((share, dim), dtype=tl.float32)
    for n in range(0, length, columns):
        j = n + tl.arange(0, columns)
        held = tl.load(table_ptr + sequence * T + j // page, mask=j < length, other=0)
        token = ((held * page + j % page) * G + group) * dim
        k = tl.load(k_ptr + token[None, :] + d[:, None], mask=j[None, :] < length, other=0.0)
        scores = tl.where(j[None, :] < length, tl.dot(q, k) * scale, -1e30)
        higher = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        factor = tl.exp2(top - higher)
        total = total * factor + tl.sum(weights, 1)
        v = tl.load(v_ptr + token[:, None] + d[None, :], mask=j[:, None] < length, other=0.0)
        out = tl.dot(weights.to(tl.bfloat16), v, out * factor[:, None])
        top = higher
    out = out / total[:, None]
    tl.store(out_ptr + head[:, None] * dim + d[None, :], out.to(tl.bfloat16))


def run(q, k, v, table, length):
    (B, heads, dim), (_, page, G, _) = q.shape, k.shape
    out = torch.empty_like(q)
    columns = 64
    scale = 1.44269504 / dim**0.5
    paged_decode_kernel[(G, B)](
        q, k, v, table, length, out, G, table.shape[1], scale, heads // G, dim, page, columns,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
