# ruff: noqa: ANN001, ANN201, D103
"""Volatilities at which options cost what is paid for them, by eight steps of Newton."""

import torch
import triton
import triton.language as tl


@triton.jit
def implied_vol_kernel(paid_ptr, money_ptr, time_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    paid = tl.load(paid_ptr + at, mask=at < N, other=0.1)
    money = tl.load(money_ptr + at, mask=at < N, other=1.0)
    root = tl.sqrt(tl.load(time_ptr + at, mask=at < N, other=1.0))
    far = tl.log(money)
    swing = tl.full((block,), 0.5, dtype=tl.float32)
    for _ in range(8):
        spread = swing * root
        first = far / spread + 0.5 * spread
        second = first - spread
        chance = 0.5 + 0.5 * tl.erf(first * 0.70710678)
        other = 0.5 + 0.5 * tl.erf(second * 0.70710678)
        slope = money * root * tl.exp(-0.5 * first * first) * 0.39894228
        swing -= (money * chance - other - paid) / tl.maximum(slope, 1e-3)
        swing = tl.minimum(tl.maximum(swing, 0.05), 2.0)
    tl.store(out_ptr + at, swing, mask=at < N)


def run(paid, money, time):
    N = paid.shape[0]
    out = torch.empty_like(paid)
    block = 512
    implied_vol_kernel[(triton.cdiv(N, block),)](paid, money, time, out, N, block, num_warps=4)
    return out
