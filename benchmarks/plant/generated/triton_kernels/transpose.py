# ruff: noqa: ANN001, ANN201, D103
"""A matrix turned, tile by tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, rows: tl.constexpr, columns: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.program_id(1) * columns + tl.arange(0, columns)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :])
    tl.store(out_ptr + j[:, None] * M + i[None, :], tl.trans(x))


def run(x):
    M, N = x.shape
    out = torch.empty((N, M), device=x.device, dtype=x.dtype)
    rows, columns = 64, 64
    transpose_kernel[(triton.cdiv(M, rows), triton.cdiv(N, columns))](
        x, out, M, N, rows, columns, num_warps=8
    )
    return out
