# ruff: noqa: ANN001, ANN201, D103
"""A linear layer with its bias, a GELU and the residual that is added to it."""

import torch
import triton
import triton.language as tl


@triton.jit
def linear_gelu_kernel(
    x_ptr, w_ptr, bias_ptr, residual_ptr, out_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, group: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    high, wide = tl.cdiv(M, rows), tl.cdiv(N, columns)
    first = block // (group * wide) * group
    some = min(high - first, group)
    i = (first + block % (group * wide) % some) * rows + tl.arange(0, rows)
    j = block % (group * wide) // some * columns + tl.arange(0, columns)
    inside = (i[:, None] < M) & (j[None, :] < N)
    d = tl.arange(0, depth)
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0.0)
        w = tl.load(w_ptr + (k + d)[:, None] * N + j[None, :], mask=j[None, :] < N, other=0.0)
        sums = tl.dot(x, w, sums)
    bias = tl.load(bias_ptr + j, mask=j < N, other=0.0)
    y = sums + bias[None, :]
    inner = y * (1.5957691216 + 0.0713548163 * y * y)
    gelu = y / (1.0 + tl.exp(-inner))
    residual = tl.load(residual_ptr + i[:, None] * N + j[None, :], mask=inside, other=0.0)
    out = gelu + residual.to(tl.float32)
    tl.store(out_ptr + i[:, None] * N + j[None, :], out.to(tl.bfloat16), mask=inside)


def run(x, w, bias, residual):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), device=x.device, dtype=x.dtype)
    rows, columns, depth = 128, 128, 64
    group = 8
    grid = (triton.cdiv(M, rows) * triton.cdiv(N, columns),)
    linear_gelu_kernel[grid](
        x, w, bias, residual, out, M, N, K, rows, columns, depth, group, num_warps=8, num_stages=3
    )
    return out
