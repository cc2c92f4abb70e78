# ruff: noqa: ANN001, ANN201, D103
"""How loud eight tones are in each of many recordings, by one recursion for each tone."""

import torch
import triton
import triton.language as tl


@triton.jit
def goertzel_kernel(x_ptr, turn_ptr, out_ptr, L, M, tones: tl.constexpr, block: tl.constexpr):
    tone = tl.arange(0, tones)
    at = tl.program_id(0) * block + tl.arange(0, block)
    turn = tl.load(turn_ptr + tone)
    one = tl.zeros((tones, block), dtype=tl.float32)
    two = tl.zeros((tones, block), dtype=tl.float32)
    for t in range(0, L):
        x = tl.load(x_ptr + t * M + at, mask=at < M, other=0.0)
        made = x[None, :] + turn[:, None] * one - two
        two = one
        one = made
    loud = one * one + two * two - turn[:, None] * one * two
    place = out_ptr + tone[:, None] * M + at[None, :]
    tl.store(place, loud, mask=at[None, :] < M)


def run(x, turn):
    L, M = x.shape
    out = torch.empty((8, M), device=x.device, dtype=torch.float32)
    block = 128
    goertzel_kernel[(triton.cdiv(M, block),)](x, turn, out, L, M, 8, block, num_warps=4)
    return out
