# ruff: noqa: ANN001, ANN201, D103
"""Points turned by a quaternion each, as frames of proteins and cameras are."""

import torch
import triton
import triton.language as tl


@triton.jit
def quaternion_turn_kernel(q_ptr, p_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    w = tl.load(q_ptr + at, mask=at < N, other=1.0)
    i = tl.load(q_ptr + N + at, mask=at < N, other=0.0)
    j = tl.load(q_ptr + 2 * N + at, mask=at < N, other=0.0)
    k = tl.load(q_ptr + 3 * N + at, mask=at < N, other=0.0)
    x = tl.load(p_ptr + at, mask=at < N, other=0.0)
    y = tl.load(p_ptr + N + at, mask=at < N, other=0.0)
    z = tl.load(p_ptr + 2 * N + at, mask=at < N, other=0.0)
    factor = tl.rsqrt(w * w + i * i + j * j + k * k)
    w, i, j, k = w * factor, i * factor, j * factor, k * factor
    a = 2.0 * (j * z - k * y)
    b = 2.0 * (k * x - i * z)
    c = 2.0 * (i * y - j * x)
    tl.store(out_ptr + at, x + w * a + j * c - k * b, mask=at < N)
    tl.store(out_ptr + N + at, y + w * b + k * a - i * c, mask=at < N)
    tl.store(out_ptr + 2 * N + at, z + w * c + i * b - j * a, mask=at < N)


def run(q, p):
    N = p.shape[1]
    out = torch.empty_like(p)
    block = 1024
    quaternion_turn_kernel[(triton.cdiv(N, block),)](q, p, out, N, block, num_warps=4)
    return out
