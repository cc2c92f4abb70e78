# ruff: noqa: ANN001, ANN201, D103
"""Gradients of users' factors where a bought item should score above one that was not bought."""

import torch
import triton
import triton.language as tl


@triton.jit
def bpr_gradients_kernel(
    user_ptr, item_ptr, who_ptr, bought_ptr, other_ptr, grad_ptr, N, decay,
    D: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    offs_n = pid * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    mask = offs_n < N
    who = tl.load(who_ptr + offs_n, mask=mask, other=0)
    bought = tl.load(bought_ptr + offs_n, mask=mask, other=0)
    other = tl.load(other_ptr + offs_n, mask=mask, other=0)
    u = tl.load(user_ptr + who[:, None] * D + offs_d[None, :]).to(tl.float32)
    i = tl.load(item_ptr + bought[:, None] * D + offs_d[None, :]).to(tl.float32)
    j = tl.load(item_ptr + other[:, None] * D + offs_d[None, :]).to(tl.float32)
    diff = i - j
    margin = tl.sum(u * diff, axis=1)
    weight = 1.0 / (1.0 + tl.exp(margin))
    grad = weight[:, None] * diff - decay * u
    tl.store(grad_ptr + offs_n[:, None] * D + offs_d[None, :], grad, mask=mask[:, None])


def run(user, item, who, bought, other):
    N, D = who.shape[0], user.shape[1]
    grad = torch.empty((N, D), device=user.device, dtype=torch.float32)
    BLOCK_N = 32
    bpr_gradients_kernel[(triton.cdiv(N, BLOCK_N),)](
        user, item, who, bought, other, grad, N, 0.01, D, BLOCK_N, num_warps=4
    )
    return grad
