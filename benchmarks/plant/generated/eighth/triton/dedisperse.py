# ruff: noqa: ANN001, ANN201, D103
"""Sums over the channels of a radio telescope, each late by what a trial's plasma makes it."""

import torch
import triton
import triton.language as tl


@triton.jit
def dedisperse_kernel(data_ptr, delay_ptr, out_ptr, T, S, channels, BLOCK: tl.constexpr):
    trial = tl.program_id(1)
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = t < S
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for c in range(0, channels):
        late = tl.load(delay_ptr + trial * channels + c)
        total += tl.load(data_ptr + c * T + t + late, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + trial * S + t, total, mask=mask)


def run(data, delay):
    channels, T = data.shape
    S = T - 1024
    out = torch.empty((delay.shape[0], S), device=data.device, dtype=torch.float32)
    BLOCK = 512
    dedisperse_kernel[(triton.cdiv(S, BLOCK), delay.shape[0])](
        data, delay, out, T, S, channels, BLOCK, num_warps=4
    )
    return out
