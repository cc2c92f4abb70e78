# ruff: noqa: ANN001, ANN201, D103
"""One token by a matrix of bytes, each row of which has a scale."""

import torch
import triton
import triton.language as tl


@triton.jit
def byte_matvec_kernel(
    w_ptr, scale_ptr, x_ptr, out_ptr, M, K, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    d = tl.arange(0, columns)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, columns):
        w = tl.load(w_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0)
        x = tl.load(x_ptr + k + d).to(tl.float32)
        sums += w.to(tl.float32) * x[None, :]
    made = tl.sum(sums, 1) * tl.load(scale_ptr + i, mask=i < M, other=0.0)
    tl.store(out_ptr + i, made, mask=i < M)


def run(w, scale, x):
    M, K = w.shape
    out = torch.empty((M,), device=w.device, dtype=torch.float32)
    rows, columns = 8, 1024
    byte_matvec_kernel[(triton.cdiv(M, rows),)](w, scale, x, out, M, K, rows, columns, num_warps=4)
    return out
