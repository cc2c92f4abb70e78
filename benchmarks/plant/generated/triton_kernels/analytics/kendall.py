# ruff: noqa: ANN001, ANN201, D103
"""How often two rankings agree on the order of a pair, less how often they do not."""

import torch
import triton
import triton.language as tl


@triton.jit
def kendall_kernel(x_ptr, y_ptr, out_ptr, N, columns: tl.constexpr, others: tl.constexpr):
    row = tl.program_id(1)
    i = tl.program_id(0) * columns + tl.arange(0, columns)
    j = tl.arange(0, others)
    x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
    y = tl.load(y_ptr + row * N + i, mask=i < N, other=0.0)
    agreed = tl.zeros((columns, others), dtype=tl.int32)
    for n in range(0, N, others):
        real = (i[:, None] < N) & (n + j[None, :] < N)
        one = tl.load(x_ptr + row * N + n + j, mask=n + j < N, other=0.0)
        other = tl.load(y_ptr + row * N + n + j, mask=n + j < N, other=0.0)
        both = (x[:, None] - one[None, :]) * (y[:, None] - other[None, :])
        agreed += tl.where(real & (both > 0.0), 1, 0) - tl.where(real & (both < 0.0), 1, 0)
    total = tl.sum(tl.sum(agreed, 1), 0)
    tl.store(out_ptr + row * tl.num_programs(0) + tl.program_id(0), total)


def run(x, y):
    M, N = x.shape
    columns, others = 128, 32
    parts = triton.cdiv(N, columns)
    out = torch.empty((M, parts), device=x.device, dtype=torch.int32)
    kendall_kernel[(parts, M)](x, y, out, N, columns, others, num_warps=4)
    return out
