# ruff: noqa: ANN001, ANN201, D103
"""Sums of gradients by feature and bin, from which boosted trees choose where to split."""

import torch
import triton
import triton.language as tl


@triton.jit
def tree_histogram_kernel(
    bin_ptr, grad_ptr, hist_ptr, n, COPIES: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr
):
    feature = tl.program_id(1)
    part = tl.program_id(0)
    i = part * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    own = tl.load(bin_ptr + feature * n + i, mask=mask, other=0).to(tl.int32)
    grad = tl.load(grad_ptr + i, mask=mask, other=0.0)
    hist = hist_ptr + ((part % COPIES) * tl.num_programs(1) + feature) * BINS
    tl.atomic_add(hist + own, grad, mask=mask, sem="relaxed")


def run(bins, grad):
    features, n = bins.shape
    copies = 16
    hist = torch.zeros((copies, features, 256), device=bins.device, dtype=torch.float32)
    BLOCK = 2048
    tree_histogram_kernel[(triton.cdiv(n, BLOCK), features)](
        bins, grad, hist, n, copies, 256, BLOCK, num_warps=8
    )
    return hist.sum(0)
