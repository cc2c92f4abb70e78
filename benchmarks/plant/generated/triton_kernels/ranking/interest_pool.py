# ruff: noqa: ANN001, ANN201, D103
"""Interests of users: sums of items that they saw, weighted by how well each fits an offer."""

import torch
import triton
import triton.language as tl


@triton.jit
def interest_pool_kernel(
    offer_ptr, seen_ptr, length_ptr, out_ptr, most, dim: tl.constexpr, items: tl.constexpr
):
    user = tl.program_id(0)
    d = tl.arange(0, dim)
    n = tl.arange(0, items)
    offer = tl.load(offer_ptr + user * dim + d).to(tl.float32)
    length = tl.load(length_ptr + user)
    sums = tl.zeros((items, dim), dtype=tl.float32)
    for e in range(0, length, items):
        place = (user * most + e + n)[:, None] * dim + d[None, :]
        real = (e + n < length)[:, None]
        seen = tl.load(seen_ptr + place, mask=real, other=0.0).to(tl.float32)
        fit = tl.sum(seen * offer[None, :], 1)
        weight = 1.0 / (1.0 + tl.exp(-fit))
        sums += seen * weight[:, None]
    y = tl.sum(sums, 0)
    tl.store(out_ptr + user * dim + d, y)


def run(offer, seen, length):
    users, dim = offer.shape
    out = torch.empty((users, dim), device=offer.device, dtype=torch.float32)
    interest_pool_kernel[(users,)](offer, seen, length, out, seen.shape[1], dim, 16, num_warps=2)
    return out
