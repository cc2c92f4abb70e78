# ruff: noqa: ANN001, ANN201, D103
"""A product of a few rows, whose depth is split among programs that add up."""

import triton
import triton.language as tl


@triton.jit
def skinny_product_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr,
):  # fmt: skip
    i = tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    d = tl.arange(0, depth)
    share = K // tl.num_programs(1)
    first = tl.program_id(1) * share
    sums = tl.zeros((rows, columns), dtype=tl.float32)
    for k in range(first, first + share, depth):
        x = tl.load(x_ptr + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M, other=0.0)
        w = tl.load(w_ptr + (k + d)[:, None] * N + j[None, :])
        sums = tl.dot(x, w, sums)
    tl.atomic_add(out_ptr + i[:, None] * N + j[None, :], sums, mask=i[:, None] < M)


def run(x, w, out):
    (M, K), N = x.shape, w.shape[1]
    rows, columns, depth = 16, 128, 128
    splits = 4
    skinny_product_kernel[(triton.cdiv(N, columns), splits)](
        x, w, out, M, N, K, rows, columns, depth, num_warps=4, num_stages=4
    )
    return out
