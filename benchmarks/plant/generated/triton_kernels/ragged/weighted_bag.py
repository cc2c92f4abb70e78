# ruff: noqa: ANN001, ANN201, D103
"""Weighted means of a table's rows, of which each sample names another number."""

import torch
import triton
import triton.language as tl


@triton.jit
def weighted_bag_kernel(
    table_ptr, item_ptr, weight_ptr, start_ptr, out_ptr, N, items: tl.constexpr, block: tl.constexpr
):
    sample = tl.program_id(1)
    j = tl.program_id(0) * block + tl.arange(0, block)
    n = tl.arange(0, items)
    first = tl.load(start_ptr + sample)
    end = tl.load(start_ptr + sample + 1)
    sums = tl.zeros((items, block), dtype=tl.float32)
    weights = tl.zeros((items,), dtype=tl.float32)
    for e in range(first, end, items):
        item = tl.load(item_ptr + e + n, mask=e + n < end, other=0)
        weight = tl.load(weight_ptr + e + n, mask=e + n < end, other=0.0)
        real = (e + n < end)[:, None] & (j[None, :] < N)
        x = tl.load(table_ptr + item[:, None] * N + j[None, :], mask=real, other=0.0)
        sums += x.to(tl.float32) * weight[:, None]
        weights += weight
    y = tl.sum(sums, 0) / tl.sum(weights, 0)
    tl.store(out_ptr + sample * N + j, y, mask=j < N)


def run(table, item, weight, start):
    samples, N = start.shape[0] - 1, table.shape[1]
    out = torch.empty((samples, N), device=table.device, dtype=torch.float32)
    items, block = 8, 128
    weighted_bag_kernel[(triton.cdiv(N, block), samples)](
        table, item, weight, start, out, N, items, block, num_warps=4
    )
    return out
