# ruff: noqa: ANN001, ANN201, D103
"""Rows of tokens that a router has sorted by expert, each block by one expert's weights."""

import torch
import triton
import triton.language as tl


@triton.jit
def routed_product_kernel(
    x_ptr, w_ptr, token_ptr, expert_ptr, out_ptr, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    token = tl.load(token_ptr + i)
    expert = tl.load(expert_ptr + tl.program_id(1) * rows // 64)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + token[:, None] * K + (k + d)[None, :])
        w = tl.load(w_ptr + (expert * K + k + d)[:, None] * N + j[None, :])
        sums = tl.dot(x, w, sums)
    tl.store(out_ptr + i[:, None] * N + j[None, :], sums.to(tl.bfloat16))


def run(x, w, token, expert):
    (_, K, N), M = w.shape, token.shape[0]
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    rows, columns, depth = 64, 128, 64
    routed_product_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        x, w, token, expert, out, N, K, rows, columns, depth, num_warps=4, num_stages=3
    )
    return out
