# ruff: noqa: ANN001, ANN201, D103
"""Speeds of oscillators, each pulled towards the phases of all others."""

import torch
import triton
import triton.language as tl


@triton.jit
def kuramoto_pull_kernel(
    phase_ptr, speed_ptr, out_ptr, N, coupling, BLOCK_I: tl.constexpr, BLOCK_J: tl.constexpr
):
    i = tl.program_id(0) * BLOCK_I + tl.arange(0, BLOCK_I)
    j = tl.arange(0, BLOCK_J)
    own = tl.load(phase_ptr + i, mask=i < N, other=0.0)
    acc = tl.zeros((BLOCK_I, BLOCK_J), dtype=tl.float32)
    for start in range(0, N, BLOCK_J):
        other = tl.load(phase_ptr + start + j, mask=start + j < N, other=0.0)
        pull = tl.sin(other[None, :] - own[:, None])
        acc += tl.where((start + j)[None, :] < N, pull, 0.0)
    speed = tl.load(speed_ptr + i, mask=i < N, other=0.0)
    tl.store(out_ptr + i, speed + coupling * tl.sum(acc, 1) / N, mask=i < N)


def run(phase, speed):
    N = phase.shape[0]
    out = torch.empty_like(speed)
    BLOCK_I, BLOCK_J = 32, 64
    kuramoto_pull_kernel[(triton.cdiv(N, BLOCK_I),)](
        phase, speed, out, N, 8.0, BLOCK_I, BLOCK_J, num_warps=4
    )
    return out
