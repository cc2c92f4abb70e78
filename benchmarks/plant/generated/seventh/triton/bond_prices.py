# ruff: noqa: ANN001, ANN201, D103
"""Prices of bonds that pay twice a year, from a curve of rates with a knot for each year."""

import torch
import triton
import triton.language as tl


@triton.jit
def bond_prices_kernel(
    maturity_ptr, coupon_ptr, curve_ptr, price_ptr, n_bonds, payments, BLOCK: tl.constexpr
):
    bond = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = bond < n_bonds
    maturity = tl.load(maturity_ptr + bond, mask=mask, other=0.0)
    half = tl.load(coupon_ptr + bond, mask=mask, other=0.0) * 0.5
    price = tl.zeros((BLOCK,), dtype=tl.float32)
    for n in range(0, payments):
        t = maturity - 0.5 * n
        due = t > 0.0
        year = tl.where(due, t, 0.0).to(tl.int32)
        left = tl.load(curve_ptr + year, mask=due, other=0.0)
        right = tl.load(curve_ptr + year + 1, mask=due, other=0.0)
        rate = left + (right - left) * (t - year.to(tl.float32))
        paid = half + tl.where(n == 0, 100.0, 0.0)
        price += tl.where(due, paid * tl.exp(-rate * t), 0.0)
    tl.store(price_ptr + bond, price, mask=mask)


def run(maturity, coupon, curve):
    n_bonds = maturity.shape[0]
    price = torch.empty_like(maturity)
    BLOCK = 512
    bond_prices_kernel[(triton.cdiv(n_bonds, BLOCK),)](
        maturity, coupon, curve, price, n_bonds, 60, BLOCK, num_warps=4
    )
    return price
