# ruff: noqa: ANN001, ANN201, D103
"""How far points are from an outline of many straight pieces, as letters are drawn."""

import torch
import triton
import triton.language as tl


@triton.jit
def outline_distance_kernel(x_ptr, y_ptr, piece_ptr, out_ptr, N, pieces, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0)
    y = tl.load(y_ptr + at, mask=at < N, other=0.0)
    nearest = tl.full((block,), 1e9, dtype=tl.float32)
    for n in range(0, pieces):
        right = tl.load(piece_ptr + n * 4 + 2)
        up = tl.load(piece_ptr + n * 4 + 3)
        along = x - tl.load(piece_ptr + n * 4)
        above = y - tl.load(piece_ptr + n * 4 + 1)
        by = 1.0 / (right * right + up * up)
        share = tl.minimum(tl.maximum((along * right + above * up) * by, 0.0), 1.0)
        along -= share * right
        above -= share * up
        nearest = tl.minimum(nearest, along * along + above * above)
    tl.store(out_ptr + at, tl.sqrt(nearest), mask=at < N)


def run(x, y, piece):
    N = x.shape[0]
    out = torch.empty_like(x)
    block = 512
    outline_distance_kernel[(triton.cdiv(N, block),)](
        x, y, piece, out, N, piece.shape[0], block, num_warps=4
    )
    return out
