# ruff: noqa: ANN001, ANN201, D103
"""Gradient of a linear layer's weight: a product over tokens, which several programs share."""

import triton
import triton.language as tl


@triton.jit
def weight_grad_kernel(
    x_ptr, dy_ptr, out_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, splits: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    share = tl.cdiv(M, depth * splits) * depth
    first = tl.program_id(2) * share
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for m in range(first, min(first + share, M), depth):
        t = m + d
        x = tl.load(x_ptr + t[None, :] * K + i[:, None], mask=t[None, :] < M, other=0.0)
        y = tl.load(dy_ptr + t[:, None] * N + j[None, :], mask=t[:, None] < M, other=0.0)
        sums = tl.dot(x, y, sums)
    tl.atomic_add(out_ptr + i[:, None] * N + j[None, :], sums)


def run(x, dy, out):
    (M, K), N = x.shape, dy.shape[1]
    rows, columns, depth = 128, 128, 64
    splits = 4
    grid = (triton.cdiv(K, rows), triton.cdiv(N, columns), splits)
    weight_grad_kernel[grid](
        x, dy, out, M, N, K, rows, columns, depth, splits, num_warps=8, num_stages=3
    )
    return out
