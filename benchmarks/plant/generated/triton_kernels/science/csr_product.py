# ruff: noqa: ANN001, ANN201, D103
"""A sparse matrix, stored by rows, times a dense one."""

import torch
import triton
import triton.language as tl


@triton.jit
def csr_product_kernel(
    start_ptr, column_ptr, value_ptr, b_ptr, out_ptr, N, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    j = tl.program_id(1) * block + tl.arange(0, block)
    real = j < N
    first = tl.load(start_ptr + row)
    end = tl.load(start_ptr + row + 1)
    sums = tl.zeros((block,), dtype=tl.float32)
    for e in range(first, end):
        column = tl.load(column_ptr + e)
        value = tl.load(value_ptr + e)
        sums += value * tl.load(b_ptr + column * N + j, mask=real, other=0.0)
    tl.store(out_ptr + row * N + j, sums, mask=real)


def run(start, column, value, b):
    M, N = start.shape[0] - 1, b.shape[1]
    out = torch.empty((M, N), device=b.device, dtype=b.dtype)
    block = 128
    csr_product_kernel[(M, triton.cdiv(N, block))](
        start, column, value, b, out, N, block, num_warps=2
    )
    return out
