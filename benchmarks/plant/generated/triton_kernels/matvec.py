# ruff: noqa: ANN001, ANN201, D103
"""A matrix by a vector: a program adds up some rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(a_ptr, x_ptr, out_ptr, M, N, rows: tl.constexpr, columns: tl.constexpr):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.arange(0, columns)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for n in range(0, N, columns):
        a = tl.load(a_ptr + i[:, None] * N + (n + j)[None, :], mask=(n + j)[None, :] < N, other=0.0)
        x = tl.load(x_ptr + n + j, mask=n + j < N, other=0.0)
        part = a.to(tl.float32) * x.to(tl.float32)[None, :]
        sums += part
    tl.store(out_ptr + i, tl.sum(sums, 1))


def run(a, x):
    M, N = a.shape
    out = torch.empty((M,), device=a.device, dtype=torch.float32)
    rows, columns = 4, 1024
    matvec_kernel[(triton.cdiv(M, rows),)](a, x, out, M, N, rows, columns, num_warps=8)
    return out
