# ruff: noqa: ANN001, ANN201, D103
"""The losses of forecasts of nine quantiles, each summed over all samples."""

import triton
import triton.language as tl


@triton.jit
def pinball_loss_kernel(y_ptr, forecast_ptr, out_ptr, N, blocks, block: tl.constexpr):
    quantile = tl.program_id(1)
    at = tl.arange(0, block)
    level = (quantile + 1) * 0.1
    losses = tl.zeros((block,), dtype=tl.float32)
    for n in range(tl.program_id(0) * block, N, blocks * block):
        y = tl.load(y_ptr + n + at, mask=n + at < N, other=0.0)
        guess = tl.load(forecast_ptr + quantile * N + n + at, mask=n + at < N, other=0.0)
        apart = y - guess.to(tl.float32)
        losses += tl.maximum(apart * level, apart * (level - 1.0))
    loss = tl.sum(losses, 0)
    tl.atomic_add(out_ptr + quantile, loss)


def run(y, forecast, out):
    quantiles, N = forecast.shape
    block, blocks = 1024, 128
    pinball_loss_kernel[(blocks, quantiles)](y, forecast, out, N, blocks, block, num_warps=4)
    return out
