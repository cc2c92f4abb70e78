# ruff: noqa: ANN001, ANN201, D103
"""The squared distance of each vector to the nearest one of a code book."""

import torch
import triton
import triton.language as tl


@triton.jit
def nearest_code_kernel(
    x_ptr, code_ptr, square_ptr, out_ptr, N,
    rows: tl.constexpr, columns: tl.constexpr, dim: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.arange(0, columns)
    d = tl.arange(0, dim)
    x = tl.load(x_ptr + i[:, None] * dim + d[None, :])
    least = tl.full((rows,), 1e30, dtype=tl.float32)
    for n in range(0, N, columns):
        code = tl.load(code_ptr + (n + j)[None, :] * dim + d[:, None])
        square = tl.load(square_ptr + n + j)
        apart = square[None, :] - 2.0 * tl.dot(x, code)
        least = tl.minimum(least, tl.min(apart, 1))
    whole = tl.sum(x.to(tl.float32) * x.to(tl.float32), 1)
    tl.store(out_ptr + i, least + whole)


def run(x, code, square):
    (M, dim), N = x.shape, code.shape[0]
    out = torch.empty((M,), device=x.device, dtype=torch.float32)
    rows, columns = 128, 128
    nearest_code_kernel[(triton.cdiv(M, rows),)](
        x, code, square, out, N, rows, columns, dim, num_warps=8, num_stages=3
    )
    return out
