# ruff: noqa: ANN001, ANN201, D103
"""Small updates of a layer's result, by one of many adapters for each 16 tokens."""

import torch
import triton
import triton.language as tl


@triton.jit
def adapter_rows_kernel(
    x_ptr, down_ptr, up_ptr, adapter_ptr, y_ptr, out_ptr, N, K,
    rank: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    r = tl.arange(0, rank)
    d = tl.arange(0, depth)
    j = tl.arange(0, columns)
    adapter = tl.load(adapter_ptr + tl.program_id(0))
    low = tl.zeros((rows, rank), dtype=tl.float32)
    for k in range(0, K, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :])
        down = tl.load(down_ptr + (adapter * K + k + d)[:, None] * rank + r[None, :])
        low = tl.dot(x, down, low)
    shared = low.to(tl.bfloat16)
    for n in range(0, N, columns):
        up = tl.load(up_ptr + (adapter * rank + r)[:, None] * N + (n + j)[None, :])
        y = tl.load(y_ptr + i[:, None] * N + (n + j)[None, :]).to(tl.float32)
        made = y + tl.dot(shared, up) * 0.5
        tl.store(out_ptr + i[:, None] * N + (n + j)[None, :], made.to(tl.bfloat16))


def run(x, down, up, adapter, y):
    (M, K), N = x.shape, y.shape[1]
    out = torch.empty_like(y)
    rows, columns, depth = 16, 128, 128
    adapter_rows_kernel[(triton.cdiv(M, rows),)](
        x, down, up, adapter, y, out, N, K, down.shape[2], rows, columns, depth,
        num_warps=4, num_stages=3,
    )  # fmt: skip
    return out
