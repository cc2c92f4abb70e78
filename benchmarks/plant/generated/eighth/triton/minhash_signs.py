# ruff: noqa: ANN001, ANN201, D103
"""Signatures of documents, by which near duplicates are found: least hashes of their words."""

import torch
import triton
import triton.language as tl


@triton.jit
def minhash_signs_kernel(
    token_ptr, a_ptr, b_ptr, sign_ptr, L, HASHES: tl.constexpr, BLOCK: tl.constexpr
):
    doc = tl.program_id(0)
    h = tl.arange(0, HASHES)
    cols = tl.arange(0, BLOCK)
    a = tl.load(a_ptr + h)
    b = tl.load(b_ptr + h)
    least = tl.full((HASHES, BLOCK), 0x7FFFFFFF, dtype=tl.int32)
    for start in range(0, L, BLOCK):
        at = start + cols
        token = tl.load(token_ptr + doc * L + at, mask=at < L, other=0)
        mixed = (a[:, None] * (token[None, :] ^ 0x5BD1E995) + b[:, None]) & 0x7FFFFFFF
        least = tl.where((at < L)[None, :], tl.minimum(least, mixed), least)
    tl.store(sign_ptr + doc * HASHES + h, tl.min(least, 1))


def run(token, a, b):
    docs, L = token.shape
    sign = torch.empty((docs, a.shape[0]), device=token.device, dtype=torch.int32)
    minhash_signs_kernel[(docs,)](token, a, b, sign, L, a.shape[0], 32, num_warps=4)
    return sign
