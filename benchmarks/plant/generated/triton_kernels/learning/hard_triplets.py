# ruff: noqa: ANN001, ANN201, D103
"""Losses of anchors by the farthest of their own class and the nearest of another one."""

import torch
import triton
import triton.language as tl


@triton.jit
def hard_triplets_kernel(
    emb_ptr, label_ptr, loss_ptr, B, margin,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    in_m = offs_m < B
    anchor = tl.load(emb_ptr + offs_m[:, None] * D + offs_d[None, :], mask=in_m[:, None], other=0.0)
    own = tl.load(label_ptr + offs_m, mask=in_m, other=-1)
    far = tl.full((BLOCK_M,), 0.0, dtype=tl.float32)
    near = tl.full((BLOCK_M,), 4.0, dtype=tl.float32)
    for n in range(0, B, BLOCK_N):
        in_n = n + offs_n < B
        place = (n + offs_n)[None, :] * D + offs_d[:, None]
        other = tl.load(emb_ptr + place, mask=in_n[None, :], other=0.0)
        label = tl.load(label_ptr + n + offs_n, mask=in_n, other=-2)
        dist = 2.0 - 2.0 * tl.dot(anchor, other)
        alike = own[:, None] == label[None, :]
        far = tl.maximum(far, tl.max(tl.where(alike, dist, 0.0), 1))
        near = tl.minimum(near, tl.min(tl.where(alike | ~in_n[None, :], 4.0, dist), 1))
    tl.store(loss_ptr + offs_m, tl.maximum(far - near + margin, 0.0), mask=in_m)


def run(emb, label):
    B, D = emb.shape
    loss = torch.empty((B,), device=emb.device, dtype=torch.float32)
    BLOCK_M, BLOCK_N = 128, 64
    hard_triplets_kernel[(triton.cdiv(B, BLOCK_M),)](
        emb, label, loss, B, 0.3, D, BLOCK_M, BLOCK_N, num_warps=8, num_stages=2
    )
    return loss
