# ruff: noqa: ANN001, ANN201, D103
"""Sums of the equations that turn one scan onto another: 21 of products of columns, six, one."""

import triton
import triton.language as tl


@triton.jit
def icp_sums_kernel(src_ptr, dst_ptr, normal_ptr, sum_ptr, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < N
    px = tl.load(src_ptr + i, mask=m, other=0.0)
    py = tl.load(src_ptr + N + i, mask=m, other=0.0)
    pz = tl.load(src_ptr + 2 * N + i, mask=m, other=0.0)
    nx = tl.load(normal_ptr + i, mask=m, other=0.0)
    ny = tl.load(normal_ptr + N + i, mask=m, other=0.0)
    nz = tl.load(normal_ptr + 2 * N + i, mask=m, other=0.0)
    rx = tl.load(dst_ptr + i, mask=m, other=0.0) - px
    ry = tl.load(dst_ptr + N + i, mask=m, other=0.0) - py
    rz = tl.load(dst_ptr + 2 * N + i, mask=m, other=0.0) - pz
    residual = rx * nx + ry * ny + rz * nz
    column = (py * nz - pz * ny, pz * nx - px * nz, px * ny - py * nx, nx, ny, nz, residual)
    for a in tl.static_range(7):
        for b in tl.static_range(7):
            if b >= a:
                total = tl.sum(column[a] * column[b], axis=0)
                tl.atomic_add(sum_ptr + a * 7 + b, total)


def run(src, dst, normal, sums):
    N = src.shape[1]
    BLOCK = 2048
    icp_sums_kernel[(triton.cdiv(N, BLOCK),)](src, dst, normal, sums, N, BLOCK, num_warps=8)
    return sums
