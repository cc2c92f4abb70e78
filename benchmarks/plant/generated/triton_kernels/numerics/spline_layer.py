# ruff: noqa: ANN001, ANN201, D103
"""Each channel's own curve: a sum of cubic pieces that begin at ten even places."""

import torch
import triton
import triton.language as tl


@triton.jit
def spline_layer_kernel(x_ptr, w_ptr, out_ptr, M, N, rows: tl.constexpr, block: tl.constexpr):
    i = tl.program_id(1) * rows + tl.arange(0, rows)
    j = tl.program_id(0) * block + tl.arange(0, block)
    place = i[:, None] * N + j[None, :]
    real = (i[:, None] < M) & (j[None, :] < N)
    x = tl.load(x_ptr + place, mask=real, other=0.0).to(tl.float32)
    at = tl.minimum(tl.maximum(x * 1.5 + 5.5, 0.0), 10.999)
    piece = tl.floor(at)
    t = at - piece
    first = piece.to(tl.int32) * N + j[None, :]
    back = 1.0 - t
    a = tl.load(w_ptr + first, mask=real, other=0.0) * back * back * back
    b = tl.load(w_ptr + first + N, mask=real, other=0.0) * (3.0 * t * t * t - 6.0 * t * t + 4.0)
    c = tl.load(w_ptr + first + 2 * N, mask=real, other=0.0)
    e = tl.load(w_ptr + first + 3 * N, mask=real, other=0.0) * t * t * t
    y = (a + b + c * (3.0 * back * back * back - 6.0 * back * back + 4.0) + e) / 6.0
    tl.store(out_ptr + place, y.to(tl.bfloat16), mask=real)


def run(x, w):
    M, N = x.shape
    out = torch.empty_like(x)
    rows, block = 4, 256
    grid = (triton.cdiv(N, block), triton.cdiv(M, rows))
    spline_layer_kernel[grid](x, w, out, M, N, rows, block, num_warps=4)
    return out
