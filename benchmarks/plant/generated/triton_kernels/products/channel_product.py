# ruff: noqa: ANN001, ANN201, D103
"""A product of bytes in whole numbers, with a scale of each row and of each column at its end."""

import torch
import triton
import triton.language as tl


@triton.jit
def channel_product_kernel(
    a_ptr, b_ptr, down_ptr, across_ptr, c_ptr, M, N, K,
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
    sums = tl.zeros((rows, columns), dtype=tl.int32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0)
        b = tl.load(b_ptr + j[None, :] * K + (k + d)[:, None], mask=j[None, :] < N, other=0)
        sums = tl.dot(a, b, sums, out_dtype=tl.int32)
    down = tl.load(down_ptr + i, mask=i < M, other=0.0)
    across = tl.load(across_ptr + j, mask=j < N, other=0.0)
    y = sums.to(tl.float32) * down[:, None] * across[None, :]
    tl.store(c_ptr + i[:, None] * N + j[None, :], y.to(tl.bfloat16), mask=inside)


def run(a, b, down, across):
    (M, K), N = a.shape, b.shape[0]
    c = torch.empty((M, N), device=a.device, dtype=torch.bfloat16)
    rows, columns, depth = 128, 128, 128
    group = 8
    channel_product_kernel[(triton.cdiv(M, rows) * triton.cdiv(N, columns),)](
        a, b, down, across, c, M, N, K, rows, columns, depth, group, num_warps=8, num_stages=3
    )
    return c
