# ruff: noqa: ANN001, ANN201, D103
"""A matrix times a vector, where eight weights at a time are one of 256 entries of a code book."""

import torch
import triton
import triton.language as tl


@triton.jit
def codebook_matvec_kernel(
    code_ptr, book_ptr, x_ptr, scale_ptr, y_ptr, M, G,
    stride_cm, VEC: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_G: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rg = tl.arange(0, BLOCK_G)
    rv = tl.arange(0, VEC)
    acc = tl.zeros((BLOCK_M, BLOCK_G, VEC), dtype=tl.float32)
    for g in range(0, G, BLOCK_G):
        code_at = rm[:, None] * stride_cm + g + rg[None, :]
        keep = (rm[:, None] < M) & (g + rg[None, :] < G)
        code = tl.load(code_ptr + code_at, mask=keep, other=0)
        entry = (code.to(tl.int32) & 255)[:, :, None] * VEC + rv[None, None, :]
        w = tl.load(book_ptr + entry).to(tl.float32)
        at = (g + rg)[:, None] * VEC + rv[None, :]
        x = tl.load(x_ptr + at, mask=(g + rg)[:, None] < G, other=0.0).to(tl.float32)
        acc += w * x[None, :, :]
    total = tl.sum(tl.sum(acc, 2), 1)
    scale = tl.load(scale_ptr + rm, mask=rm < M, other=0.0)
    tl.store(y_ptr + rm, total * scale, mask=rm < M)


def run(code, book, x, scale):
    M, G = code.shape
    y = torch.empty((M,), device=x.device, dtype=torch.float32)
    BLOCK_M, BLOCK_G = 16, 32
    codebook_matvec_kernel[(triton.cdiv(M, BLOCK_M),)](
        code, book, x, scale, y, M, G, code.stride(0), 8, BLOCK_M, BLOCK_G, num_warps=4
    )
    return y
