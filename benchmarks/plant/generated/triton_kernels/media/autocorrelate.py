# ruff: noqa: ANN001, ANN201, D103
"""How alike rows are to themselves, moved on by up to 63 samples."""

import torch
import triton
import triton.language as tl


@triton.jit
def autocorrelate_kernel(x_ptr, out_ptr, N, lags: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0)
    lag = tl.arange(0, lags)
    at = tl.arange(0, block)
    sums = tl.zeros((lags, block), dtype=tl.float32)
    for n in range(0, N, block):
        x = tl.load(x_ptr + row * N + n + at, mask=n + at < N, other=0.0)
        late = n + at[None, :] + lag[:, None]
        y = tl.load(x_ptr + row * N + late, mask=late < N, other=0.0)
        sums += x[None, :] * y
    total = tl.sum(sums, 1)
    tl.store(out_ptr + row * lags + lag, total)


def run(x):
    M, N = x.shape
    lags, block = 64, 64
    out = torch.empty((M, lags), device=x.device, dtype=torch.float32)
    autocorrelate_kernel[(M,)](x, out, N, lags, block, num_warps=4)
    return out
