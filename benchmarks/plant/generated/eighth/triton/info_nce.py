# ruff: noqa: ANN001, ANN201, D103
"""Contrastive losses of pictures and their captions, without the matrix of all pairs in memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def info_nce_kernel(
    image_ptr, text_ptr, loss_ptr, N, warmth,
    DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    rm = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.arange(0, BLOCK_N)
    rd = tl.arange(0, DIM)
    image = tl.load(image_ptr + rm[:, None] * DIM + rd[None, :], mask=rm[:, None] < N, other=0.0)
    top = tl.full((BLOCK_M,), -1e30, dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    own = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        col = start + rn
        there = col[None, :] < N
        text = tl.load(text_ptr + col[None, :] * DIM + rd[:, None], mask=there, other=0.0)
        z = tl.dot(image, text) * warmth
        z = tl.where(there, z, -1e30)
        most = tl.maximum(top, tl.max(z, 1))
        total = total * tl.exp(top - most) + tl.sum(tl.exp(z - most[:, None]), 1)
        own += tl.sum(tl.where(col[None, :] == rm[:, None], z, 0.0), 1)
        top = most
    tl.store(loss_ptr + rm, top + tl.log(total) - own, mask=rm < N)


def run(image, text):
    N, dim = image.shape
    loss = torch.empty((N,), device=image.device, dtype=torch.float32)
    BLOCK_M, BLOCK_N = 128, 64
    info_nce_kernel[(triton.cdiv(N, BLOCK_M),)](
        image, text, loss, N, 10.0, dim, BLOCK_M, BLOCK_N, num_warps=8, num_stages=3
    )
    return loss
