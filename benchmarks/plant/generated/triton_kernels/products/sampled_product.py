# ruff: noqa: ANN001, ANN201, D103
"""Tiles of a product at sampled places, as the scores of block-sparse attention are."""

import torch
import triton
import triton.language as tl


@triton.jit
def sampled_product_kernel(
    a_ptr, b_ptr, place_ptr, out_ptr, K, side: tl.constexpr, depth: tl.constexpr
):  # fmt: skip
    tile = tl.program_id(0)
    s = tl.arange(0, side)
    d = tl.arange(0, depth)
    i = tl.load(place_ptr + tile * 2) * side + s
    j = tl.load(place_ptr + tile * 2 + 1) * side + s
    sums = tl.zeros((side, side), dtype=tl.float32)
    for k in range(0, K, depth):
        a = tl.load(a_ptr + i[:, None] * K + (k + d)[None, :])
        b = tl.load(b_ptr + j[None, :] * K + (k + d)[:, None])
        sums = tl.dot(a, b, sums)
    out = out_ptr + tile * side * side
    tl.store(out + s[:, None] * side + s[None, :], sums.to(tl.bfloat16))


def run(a, b, place):
    K, T = a.shape[1], place.shape[0]
    out = torch.empty((T, 128, 128), device=a.device, dtype=a.dtype)
    depth = 64
    sampled_product_kernel[(T,)](a, b, place, out, K, 128, depth, num_warps=8, num_stages=3)
    return out
