# ruff: noqa: ANN001, ANN201, D103
"""A matrix that has nothing but nine diagonals, times several vectors."""

import torch
import triton
import triton.language as tl


@triton.jit
def banded_product_kernel(band_ptr, x_ptr, out_ptr, M, N, rows: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * block + tl.arange(0, block)
    sums = tl.zeros((rows, block), dtype=tl.float32)
    for diagonal in range(9):
        at = i + diagonal - 4
        band = tl.load(band_ptr + diagonal * M + i, mask=i < M, other=0.0)
        inside = (at[:, None] >= 0) & (at[:, None] < M) & (j[None, :] < N)
        x = tl.load(x_ptr + at[:, None] * N + j[None, :], mask=inside, other=0.0)
        sums += band[:, None] * x
    real = (i[:, None] < M) & (j[None, :] < N)
    tl.store(out_ptr + i[:, None] * N + j[None, :], sums, mask=real)


def run(band, x):
    M, N = x.shape
    out = torch.empty_like(x)
    rows, block = 32, 64
    grid = (triton.cdiv(N, block), triton.cdiv(M, rows))
    banded_product_kernel[grid](band, x, out, M, N, rows, block, num_warps=4)
    return out
