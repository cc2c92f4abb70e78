# ruff: noqa: ANN001, ANN201, D103
"""A matrix less the product of tall factors, as a block Cholesky factorisation updates it."""

import torch
import triton
import triton.language as tl


@triton.jit
def rank_update_kernel(
    c_ptr, a_ptr, b_ptr, out_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    down, across = tl.num_programs(0), tl.num_programs(1)
    block_row, block_column = tl.swizzle2d(tl.program_id(0), tl.program_id(1), down, across, group)
    i = block_row * rows + tl.arange(0, rows)
    j = block_column * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0.0)
        b = tl.load(b_ptr + j[None, :] * K + (k + d)[:, None], mask=j[None, :] < N, other=0.0)
        sums = tl.dot(a, b, sums)
    place = i[:, None] * N + j[None, :]
    real = (i[:, None] < M) & (j[None, :] < N)
    c = tl.load(c_ptr + place, mask=real, other=0.0)
    tl.store(out_ptr + place, c - sums, mask=real)


def run(c, a, b):
    (M, N), K = c.shape, a.shape[1]
    out = torch.empty_like(c)
    rows, columns, depth, group = 128, 128, 64, 8
    rank_update_kernel[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        c, a, b, out, M, N, K, rows, columns, depth, group, num_warps=8, num_stages=3
    )
    return out
