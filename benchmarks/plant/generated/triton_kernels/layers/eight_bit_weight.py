# ruff: noqa: ANN001, ANN201, D103
"""A product with weights of eight-bit floats that are widened as they come."""

import torch
import triton
import triton.language as tl


@triton.jit
def eight_bit_weight_kernel(
    x_ptr, w_ptr, scale_ptr, out_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0.0)
        w = tl.load(w_ptr + (k + d)[:, None] * N + j[None, :])
        sums = tl.dot(x, w.to(tl.bfloat16), sums)
    made = sums * tl.load(scale_ptr + j)[None, :]
    tl.store(out_ptr + i[:, None] * N + j[None, :], made.to(tl.bfloat16), mask=i[:, None] < M)


def run(x, w, scale):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    rows, columns, depth = 128, 128, 64
    eight_bit_weight_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        x, w, scale, out, M, N, K, rows, columns, depth, num_warps=8, num_stages=3
    )
    return out
