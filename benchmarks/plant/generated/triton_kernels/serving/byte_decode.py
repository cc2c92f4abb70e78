# ruff: noqa: ANN001, ANN201, D103
"""A new token's attention to keys and values of bytes, with a scale for each token."""

import torch
import triton
import triton.language as tl


@triton.jit
def byte_decode_kernel(
    q_ptr, k_ptr, v_ptr, k_scale_ptr, v_scale_ptr, out_ptr, N, scale,
    dim: tl.constexpr, heads: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0)
    h = tl.arange(0, heads)
    j = tl.arange(0, columns)
    d = tl.arange(0, dim)
    q = tl.load(q_ptr + (group * heads + h)[:, None] * dim + d[None, :])
    top = tl.full((heads,), -1e30, dtype=tl.float32)
    total = tl.zeros((heads,), dtype=tl.float32)
    out = tl.zeros((heads, dim), dtype=tl.float32)
    for n in range(0, N, columns):
        token = group * N + n + j
        k = tl.load(k_ptr + token[None, :] * dim + d[:, None])
        k_scale = tl.load(k_scale_ptr + token)
        scores = tl.dot(q, k.to(tl.float16)) * (k_scale * scale)[None, :]
        most = tl.maximum(top, tl.max(scores, 1))
        weights = tl.exp2(scores - most[:, None])
        fade = tl.exp2(top - most)
        total = total * fade + tl.sum(weights, 1)
        v = tl.load(v_ptr + token[:, None] * dim + d[None, :])
        v_scale = tl.load(v_scale_ptr + token)
        shares = (weights * v_scale[None, :]).to(tl.float16)
        out = tl.dot(shares, v.to(tl.float16), out * fade[:, None])
        top = most
    place = (group * heads + h)[:, None] * dim + d[None, :]
    tl.store(out_ptr + place, (out / total[:, None]).to(tl.float16))


def run(q, k, v, k_scale, v_scale):
    groups, heads, dim = q.shape
    N = k.shape[1]
    out = torch.empty_like(q)
    columns = 64
    byte_decode_kernel[(groups,)](
        q, k, v, k_scale, v_scale, out, N, 1.44269504 / dim**0.5, dim, heads, columns,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
