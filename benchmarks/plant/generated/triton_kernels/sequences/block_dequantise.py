# ruff: noqa: ANN001, ANN201, D103
"""Weights of eight bits made wide again, each 128 by 128 of them by a scale."""

import torch
import triton
import triton.language as tl


@triton.jit
def block_dequantise_kernel(
    x_ptr, scale_ptr, out_ptr, M, N, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    real, known = i < M, j < N
    group = tl.program_id(1) * rows // 128 * (N // 128)
    scale = tl.load(scale_ptr + group + j // 128, mask=known, other=0.0)
    x = tl.load(x_ptr + i[:, None] * N + j[None, :], mask=real[:, None] & known[None, :]).to(
        tl.float32
    )
    y = x * scale[None, :]
    tl.store(
        out_ptr + i[:, None] * N + j[None, :],
        y.to(tl.bfloat16),
        mask=real[:, None] & known[None, :],
    )


def run(x, scale):
    M, N = x.shape
    out = torch.empty((M, N), device=x.device, dtype=torch.bfloat16)
    rows, columns = 16, 256
    block_dequantise_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        x, scale, out, M, N, rows, columns, num_warps=8
    )
    return out
