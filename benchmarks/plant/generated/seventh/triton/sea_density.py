# ruff: noqa: ANN001, ANN201, D103
"""Densities of sea water from temperature, salt and depth: a polynomial of oceanography."""

import torch
import triton
import triton.language as tl


@triton.jit
def sea_density_kernel(t_ptr, s_ptr, p_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    t = tl.load(t_ptr + i, mask=mask, other=0.0)
    s = tl.load(s_ptr + i, mask=mask, other=0.0)
    p = tl.load(p_ptr + i, mask=mask, other=0.0)
    root = tl.sqrt(s)
    fresh = 999.842594 + t * (6.793952e-2 + t * (-9.09529e-3 + t * (1.001685e-4 - t * 1.120083e-6)))
    a = 0.824493 + t * (-4.0899e-3 + t * (7.6438e-5 - t * 8.2467e-7))
    b = -5.72466e-3 + t * (1.0227e-4 - t * 1.6546e-6)
    surface = fresh + s * (a + b * root + 4.8314e-4 * s)
    stiff = 19652.21 + t * (148.4206 + t * (-2.327105 + t * 1.360477e-2))
    stiff += s * (54.6746 - 0.603459 * t + 7.944e-2 * root)
    stiff += p * (3.239908 + 1.43713e-3 * t + 2.2838e-3 * s)
    tl.store(out_ptr + i, surface / (1.0 - p / stiff) - 1000.0, mask=mask)


def run(t, s, p):
    n = t.numel()
    out = torch.empty_like(t)
    BLOCK = 1024
    sea_density_kernel[(triton.cdiv(n, BLOCK),)](t, s, p, out, n, BLOCK, num_warps=4)
    return out
