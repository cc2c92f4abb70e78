# ruff: noqa: ANN001, ANN201, D103
"""Shares of experts, of which only those of a token's four best groups may be chosen."""

import torch
import triton
import triton.language as tl


@triton.jit
def group_gate_kernel(
    x_ptr, bias_ptr, out_ptr, M, rows: tl.constexpr, groups: tl.constexpr, each: tl.constexpr
):
    i = tl.program_id(0) * rows + tl.arange(0, rows)
    g = tl.arange(0, groups)
    e = tl.arange(0, each)
    number = g[None, :, None] * each + e[None, None, :]
    place = i[:, None, None] * (groups * each) + number
    real = i[:, None, None] < M
    x = tl.load(x_ptr + place, mask=real, other=0.0).to(tl.float32)
    share = 1.0 / (1.0 + tl.exp(-x))
    score = x + tl.load(bias_ptr + number)
    left = tl.max(score, 2)
    limit = tl.max(left, 1)
    for _ in range(3):
        left = tl.where(left >= limit[:, None], -1e30, left)
        limit = tl.max(left, 1)
    best = tl.max(score, 2) >= limit[:, None]
    chosen = tl.where(best[:, :, None], score, -1e30)
    rest = chosen
    least = tl.max(tl.max(rest, 2), 1)
    for _ in range(7):
        rest = tl.where(rest >= least[:, None, None], -1e30, rest)
        least = tl.max(tl.max(rest, 2), 1)
    kept = tl.where(chosen >= least[:, None, None], share, 0.0)
    total = tl.sum(tl.sum(kept, 2), 1)
    tl.store(out_ptr + place, kept / total[:, None, None], mask=real)


def run(x, bias):
    M, experts = x.shape
    out = torch.empty((M, experts), device=x.device, dtype=torch.float32)
    rows, groups = 4, 8
    group_gate_kernel[(triton.cdiv(M, rows),)](
        x, bias, out, M, rows, groups, experts // groups, num_warps=4
    )
    return out
