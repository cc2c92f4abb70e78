# ruff: noqa: ANN001, ANN201, D103
"""A matrix of how near samples are to each other, as kernel methods take it."""

import torch
import triton
import triton.language as tl


@triton.jit
def rbf_matrix_kernel(
    x_ptr, y_ptr, x_square_ptr, y_square_ptr, out_ptr, N, K, width,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    dots = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :])
        y = tl.load(y_ptr + j[None, :] * K + (k + d)[:, None])
        dots = tl.dot(x, y, dots)
    one = tl.load(x_square_ptr + i)
    other = tl.load(y_square_ptr + j)
    apart = tl.maximum(one[:, None] + other[None, :] - 2.0 * dots, 0.0)
    near = tl.exp2(apart * width)
    tl.store(out_ptr + i[:, None] * N + j[None, :], near.to(tl.float16))


def run(x, y, x_square, y_square):
    (M, K), N = x.shape, y.shape[0]
    out = torch.empty((M, N), device=x.device, dtype=torch.float16)
    rows, columns, depth = 128, 128, 64
    rbf_matrix_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        x, y, x_square, y_square, out, N, K, -0.5 / K, rows, columns, depth,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    return out
