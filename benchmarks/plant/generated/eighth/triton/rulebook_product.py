# ruff: noqa: ANN001, ANN201, D103
"""A convolution over the few voxels of a scan that hold points, by a list of their neighbours."""

import torch
import triton
import triton.language as tl


@triton.jit
def rulebook_product_kernel(
    x_ptr, rule_ptr, w_ptr, y_ptr, V, TAPS: tl.constexpr,
    C: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    v = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, C)
    f = tl.arange(0, F)
    live = v < V
    acc = tl.zeros((BLOCK, F), dtype=tl.float32)
    for tap in range(0, TAPS):
        near = tl.load(rule_ptr + tap * V + v, mask=live, other=-1)
        x = tl.load(x_ptr + near[:, None] * C + c[None, :], mask=near[:, None] >= 0, other=0.0)
        w = tl.load(w_ptr + (tap * C + c[:, None]) * F + f[None, :])
        acc = tl.dot(x, w, acc)
    tl.store(y_ptr + v[:, None] * F + f[None, :], acc.to(tl.bfloat16), mask=live[:, None])


def run(x, rule, w):
    V = x.shape[0]
    taps, C, F = w.shape
    y = torch.empty((V, F), device=x.device, dtype=x.dtype)
    BLOCK = 128
    rulebook_product_kernel[(triton.cdiv(V, BLOCK),)](
        x, rule, w, y, V, taps, C, F, BLOCK, num_warps=4, num_stages=3
    )
    return y
