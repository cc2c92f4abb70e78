# ruff: noqa: ANN001, ANN201, D103
"""Echoes taken out of many channels by filters of 32 taps that learn with each sample."""

import torch
import triton
import triton.language as tl


@triton.jit
def nlms_filter_kernel(
    far_ptr, mic_ptr, err_ptr, length, channels, mu, TAPS: tl.constexpr, BLOCK: tl.constexpr
):
    ch = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tap = tl.arange(0, TAPS)
    live = ch < channels
    w = tl.zeros((TAPS, BLOCK), dtype=tl.float32)
    for t in range(0, length):
        window = (t + tap)[:, None] * channels + ch[None, :]
        x = tl.load(far_ptr + window, mask=live[None, :], other=0.0)
        d = tl.load(mic_ptr + t * channels + ch, mask=live, other=0.0)
        err = d - tl.sum(w * x, 0)
        power = tl.sum(x * x, 0) + 0.001
        w += (mu * err / power)[None, :] * x
        tl.store(err_ptr + t * channels + ch, err, mask=live)


def run(far, mic):
    length, channels = mic.shape
    err = torch.empty_like(mic)
    BLOCK = 64
    nlms_filter_kernel[(triton.cdiv(channels, BLOCK),)](
        far, mic, err, length, channels, 0.5, 32, BLOCK, num_warps=4
    )
    return err
