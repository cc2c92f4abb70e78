# ruff: noqa: ANN001, ANN201, D103
"""Means of the rows of each sequence; sequences of different lengths lie end to end."""

import torch
import triton
import triton.language as tl


@triton.jit
def jagged_mean_kernel(
    x_ptr, offset_ptr, out_ptr, N, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    sequence = tl.program_id(1)
    i = tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    first = tl.load(offset_ptr + sequence)
    end = tl.load(offset_ptr + sequence + 1)
    real = j < N
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for n in range(first, end, rows):
        held = n + i < end
        x = tl.load(
            x_ptr + (n + i)[:, None] * N + j[None, :], mask=held[:, None] & real[None, :], other=0.0
        )
        sums += x.to(tl.float32)
    mean = tl.sum(sums, 0) / tl.maximum(end - first, 1)
    tl.store(out_ptr + sequence * N + j, mean, mask=real)


def run(x, offset):
    N, M = x.shape[1], offset.shape[0] - 1
    out = torch.empty((M, N), device=x.device, dtype=torch.float32)
    rows, columns = 8, 256
    jagged_mean_kernel[(triton.cdiv(N, columns), M)](x, offset, out, N, rows, columns, num_warps=4)
    return out
