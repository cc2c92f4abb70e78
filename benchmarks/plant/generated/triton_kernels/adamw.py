# ruff: noqa: ANN001, ANN201, D103
"""A step of AdamW; weights with a copy of how they change."""

import torch
import triton
import triton.language as tl


@triton.jit
def adamw_kernel(w_ptr, g_ptr, m_ptr, v_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    w = tl.load(w_ptr + at, mask=at < N)
    g = tl.load(g_ptr + at, mask=at < N)
    m = tl.load(m_ptr + at, mask=at < N)
    v = tl.load(v_ptr + at, mask=at < N)
    mean = m * 0.9 + g * 0.1
    square = tl.abs(v) * 0.999 + g * g * 0.001
    root = tl.sqrt(square) + 1e-4
    step = mean / root
    tl.store(out_ptr + at, w * 0.99 - step * 0.001, mask=at < N)


def run(w, g, m, v):
    N = w.numel()
    out = torch.empty_like(w)
    block = 1024
    adamw_kernel[(triton.cdiv(N, block),)](w, g, m, v, out, N, block, num_warps=4)
    return out
