# ruff: noqa: ANN001, ANN201, D103
"""A step of an optimiser whose second moments are kept as one vector of rows and one of columns."""

import torch
import triton
import triton.language as tl


@triton.jit
def factored_update_kernel(
    w_ptr, g_ptr, down_ptr, across_ptr, out_ptr, M, N, rows: tl.constexpr, columns: tl.constexpr
):  # fmt: skip
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * columns + tl.arange(0, columns)
    real, known = i < M, j < N
    down = tl.rsqrt(tl.load(down_ptr + i, mask=real, other=1.0))
    across = tl.rsqrt(tl.load(across_ptr + j, mask=known, other=1.0))
    w = tl.load(w_ptr + i[:, None] * N + j[None, :], mask=real[:, None] & known[None, :])
    g = tl.load(g_ptr + i[:, None] * N + j[None, :], mask=real[:, None] & known[None, :]).to(
        tl.float32
    )
    step = g * down[:, None] * across[None, :]
    step = tl.minimum(tl.maximum(step, -2.0), 2.0)
    out = w - step * 0.01
    tl.store(out_ptr + i[:, None] * N + j[None, :], out, mask=real[:, None] & known[None, :])


def run(w, g, down, across):
    M, N = w.shape
    out = torch.empty_like(w)
    rows, columns = 8, 256
    factored_update_kernel[(triton.cdiv(N, columns), triton.cdiv(M, rows))](
        w, g, down, across, out, M, N, rows, columns, num_warps=4
    )
    return out
