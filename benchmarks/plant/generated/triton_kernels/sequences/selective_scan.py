# ruff: noqa: ANN001, ANN201, D103
"""A state-space layer: states of each channel fade by a step of its own, and take in the input."""

import torch
import triton
import triton.language as tl


@triton.jit
def selective_scan_kernel(
    x_ptr, step_ptr, fade_ptr, b_ptr, c_ptr, out_ptr, L, D,
    channels: tl.constexpr, states: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1) * L
    d = tl.program_id(0) * channels + tl.arange(0, channels)
    s = tl.arange(0, states)
    fade = tl.load(fade_ptr + d[:, None] * states + s[None, :], mask=d[:, None] < D, other=0.0)
    state = tl.zeros((channels, states), dtype=tl.float32)
    for t in range(0, L):
        row = batch + t
        x = tl.load(x_ptr + row * D + d, mask=d < D, other=0.0).to(tl.float32)
        step = tl.load(step_ptr + row * D + d, mask=d < D, other=0.0)
        b = tl.load(b_ptr + row * states + s)
        c = tl.load(c_ptr + row * states + s)
        kept = tl.exp2(fade * step[:, None])
        state = state * kept + (step * x)[:, None] * b[None, :]
        y = tl.sum(state * c[None, :], 1)
        tl.store(out_ptr + row * D + d, y.to(tl.bfloat16), mask=d < D)


def run(x, step, fade, b, c):
    (B, L, D), states = x.shape, fade.shape[1]
    out = torch.empty_like(x)
    channels = 64
    selective_scan_kernel[(triton.cdiv(D, channels), B)](
        x, step, fade, b, c, out, L, D, channels, states, num_warps=4
    )
    return out
