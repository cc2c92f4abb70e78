# ruff: noqa: ANN001, ANN201, D103
"""The common area of each pair of boxes by that of both together."""

import torch
import triton
import triton.language as tl


@triton.jit
def box_overlap_kernel(a_ptr, b_ptr, out_ptr, M, N, rows: tl.constexpr, columns: tl.constexpr):
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    left = tl.load(a_ptr + i * 4, mask=i < M, other=0.0)
    top = tl.load(a_ptr + i * 4 + 1, mask=i < M, other=0.0)
    right = tl.load(a_ptr + i * 4 + 2, mask=i < M, other=0.0)
    bottom = tl.load(a_ptr + i * 4 + 3, mask=i < M, other=0.0)
    west = tl.load(b_ptr + j * 4, mask=j < N, other=0.0)
    north = tl.load(b_ptr + j * 4 + 1, mask=j < N, other=0.0)
    east = tl.load(b_ptr + j * 4 + 2, mask=j < N, other=0.0)
    south = tl.load(b_ptr + j * 4 + 3, mask=j < N, other=0.0)
    wide = tl.minimum(right[:, None], east[None, :]) - tl.maximum(left[:, None], west[None, :])
    high = tl.minimum(bottom[:, None], south[None, :]) - tl.maximum(top[:, None], north[None, :])
    common = tl.maximum(wide, 0.0) * tl.maximum(high, 0.0)
    one = (right - left) * (bottom - top)
    other = (east - west) * (south - north)
    both = one[:, None] + other[None, :] - common
    share = common / tl.maximum(both, 1e-6)
    inside = (i[:, None] < M) & (j[None, :] < N)
    tl.store(out_ptr + i[:, None] * N + j[None, :], share, mask=inside)


def run(a, b):
    M, N = a.shape[0], b.shape[0]
    out = torch.empty((M, N), device=a.device, dtype=torch.float32)
    rows, columns = 16, 256
    box_overlap_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        a, b, out, M, N, rows, columns, num_warps=4
    )
    return out
