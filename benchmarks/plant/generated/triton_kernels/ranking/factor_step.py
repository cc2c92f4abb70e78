# ruff: noqa: ANN001, ANN201, D103
"""How users' factors have to move so that products with items' factors fit the ratings."""

import torch
import triton
import triton.language as tl


@triton.jit
def factor_step_kernel(
    user_ptr, item_ptr, rating_ptr, out_ptr, N,
    dim: tl.constexpr, rows: tl.constexpr, columns: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    j = tl.arange(0, columns)
    d = tl.arange(0, dim)
    user = tl.load(user_ptr + i[:, None] * dim + d[None, :])
    step = tl.zeros((rows, dim), dtype=tl.float32)
    for n in range(0, N, columns):
        across = tl.load(item_ptr + (n + j)[None, :] * dim + d[:, None])
        item = tl.load(item_ptr + (n + j)[:, None] * dim + d[None, :])
        rating = tl.load(rating_ptr + i[:, None] * N + (n + j)[None, :]).to(tl.float32)
        miss = tl.where(rating != 0.0, rating - tl.dot(user, across), 0.0)
        step = tl.dot(miss.to(tl.bfloat16), item, step)
    tl.store(out_ptr + i[:, None] * dim + d[None, :], step)


def run(user, item, rating):
    (M, dim), N = user.shape, item.shape[0]
    out = torch.empty((M, dim), device=user.device, dtype=torch.float32)
    rows, columns = 64, 64
    factor_step_kernel[(triton.cdiv(M, rows),)](
        user, item, rating, out, N, dim, rows, columns, num_warps=4, num_stages=3
    )
    return out
