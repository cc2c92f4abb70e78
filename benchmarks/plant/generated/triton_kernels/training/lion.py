# ruff: noqa: ANN001, ANN201, D103
"""A step of the Lion optimiser: weights by the sign of a mean of gradients, and the next mean."""

import torch
import triton
import triton.language as tl


@triton.jit
def lion_kernel(w_ptr, g_ptr, m_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    w = tl.load(w_ptr + at, mask=at < N)
    g = tl.load(g_ptr + at, mask=at < N).to(tl.float32)
    m = tl.load(m_ptr + at, mask=at < N)
    mixed = m * 0.9 + g * 0.1
    sign = tl.where(mixed > 0, 1.0, -1.0)
    step = w * 0.999 - sign * 0.01
    mean = m * 0.99 + g * 0.01
    tl.store(out_ptr + at, step, mask=at < N)
    tl.store(out_ptr + N + at, mean, mask=at < N)


def run(w, g, m):
    N = w.numel()
    out = torch.empty((2, N), device=w.device, dtype=w.dtype)
    block = 1024
    lion_kernel[(triton.cdiv(N, block),)](w, g, m, out, N, block, num_warps=4)
    return out
