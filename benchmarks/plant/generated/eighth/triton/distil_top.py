# ruff: noqa: ANN001, ANN201, D103
"""Losses of a small model that learns from the 32 likeliest tokens of a large one."""

import torch
import triton
import triton.language as tl


@triton.jit
def distil_top_kernel(
    logit_ptr, token_ptr, chance_ptr, loss_ptr, V, TOP: tl.constexpr, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    most = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        at = start + cols
        z = tl.load(logit_ptr + row * V + at, mask=at < V, other=-1e4).to(tl.float32)
        top = tl.maximum(most, z)
        total = total * tl.exp(most - top) + tl.exp(z - top)
        most = top
    peak = tl.max(most, 0)
    lse = peak + tl.log(tl.sum(total * tl.exp(most - peak), 0))
    k = tl.arange(0, TOP)
    token = tl.load(token_ptr + row * TOP + k)
    p = tl.load(chance_ptr + row * TOP + k)
    chosen = tl.load(logit_ptr + row * V + token).to(tl.float32)
    tl.store(loss_ptr + row, tl.sum(p * (tl.log(p) - chosen + lse), 0))


def run(logit, token, chance):
    M, V = logit.shape
    loss = torch.empty((M,), device=logit.device, dtype=torch.float32)
    distil_top_kernel[(M,)](logit, token, chance, loss, V, token.shape[1], 2048, num_warps=8)
    return loss
