# ruff: noqa: ANN001, ANN201, D103
"""How sure a receiver is of six bits of a symbol: the nearest points with each, and without."""

import torch
import triton
import triton.language as tl


@triton.jit
def soft_demap_kernel(
    re_ptr, im_ptr, point_ptr, llr_ptr, n, inverse_noise, BITS: tl.constexpr, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, 1 << BITS)
    m = i < n
    re = tl.load(re_ptr + i, mask=m, other=0.0)
    im = tl.load(im_ptr + i, mask=m, other=0.0)
    cre = tl.load(point_ptr + c)
    cim = tl.load(point_ptr + (1 << BITS) + c)
    dre = re[:, None] - cre[None, :]
    dim = im[:, None] - cim[None, :]
    far = dre * dre + dim * dim
    for b in tl.static_range(BITS):
        one = ((c >> b) & 1)[None, :] > 0
        d1 = tl.min(tl.where(one, far, 1e30), 1)
        d0 = tl.min(tl.where(one, 1e30, far), 1)
        tl.store(llr_ptr + b * n + i, (d1 - d0) * inverse_noise, mask=m)


def run(re, im, point):
    n = re.shape[0]
    llr = torch.empty((6, n), device=re.device, dtype=torch.float32)
    BLOCK = 64
    soft_demap_kernel[(triton.cdiv(n, BLOCK),)](re, im, point, llr, n, 8.0, 6, BLOCK, num_warps=4)
    return llr
