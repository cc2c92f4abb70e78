# ruff: noqa: ANN001, ANN201, D103
"""The k-th greatest number of each row, found bit by bit from the top, without an order."""

import torch
import triton
import triton.language as tl


@triton.jit
def select_kth_kernel(x_ptr, k_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + cols, mask=cols < n_cols, other=-1)
    left = tl.load(k_ptr + row)
    prefix = 0
    for step in range(0, 31):
        bit = 30 - step
        guess = prefix | (1 << bit)
        match = (x >> bit) == (guess >> bit)
        count = tl.sum(match.to(tl.int32), axis=0)
        take = count >= left
        prefix = tl.where(take, guess, prefix)
        left = tl.where(take, left, left - count)
    tl.store(out_ptr + row, prefix)


def run(x, k):
    n_rows, n_cols = x.shape
    out = torch.empty_like(k)
    BLOCK = triton.next_power_of_2(n_cols)
    select_kth_kernel[(n_rows,)](x, k, out, n_cols, BLOCK, num_warps=4)
    return out
