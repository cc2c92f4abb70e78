# ruff: noqa: ANN001, ANN201, D103
"""Products of several pairs of matrices by a fixed number of programs, tile after tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def grouped_gemm_kernel(
    a_ptr, b_ptr, c_ptr, G, M, N, K,
    rows: tl.constexpr, columns: tl.constexpr, depth: tl.constexpr, programs: tl.constexpr,
):  # fmt: skip
    down, across = tl.cdiv(M, rows), tl.cdiv(N, columns)
    for tile in range(tl.program_id(0), G * down * across, programs):
        g = tile // (down * across)
        i = tile % (down * across) // across * rows + tl.arange(0, rows)
        j = tile % across * columns + tl.arange(0, columns)
        d = tl.arange(0, depth)
        sums = tl.zeros((rows, columns), dtype=tl.float32)
        for k in range(0, K, depth):
            a = tl.load(a_ptr + g * M * K + i[:, None] * K + (k + d)[None, :], mask=i[:, None] < M)
            b = tl.load(b_ptr + g * K * N + (k + d)[:, None] * N + j[None, :], mask=j[None, :] < N)
            sums = tl.dot(a, b, sums)
        inside = (i[:, None] < M) & (j[None, :] < N)
        tl.store(c_ptr + g * M * N + i[:, None] * N + j[None, :], sums.to(tl.float16), mask=inside)


def run(a, b):
    (G, M, K), N = a.shape, b.shape[2]
    c = torch.empty((G, M, N), device=a.device, dtype=a.dtype)
    rows, columns, depth = 128, 128, 64
    programs = 132
    grouped_gemm_kernel[(programs,)](
        a, b, c, G, M, N, K, rows, columns, depth, programs, num_warps=8, num_stages=3
    )
    return c
