# ruff: noqa: ANN001, ANN201, D103
"""Distances of texts to patterns of 32 letters by edits, a column of the table in two words."""

import torch
import triton
import triton.language as tl


@triton.jit
def bit_edits_kernel(place_ptr, text_ptr, out_ptr, L, M, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    full = tl.full((block,), -1, dtype=tl.int32).to(tl.uint32)
    up = full
    down = tl.zeros((block,), dtype=tl.uint32)
    score = tl.full((block,), 32, dtype=tl.int32)
    for t in range(0, L):
        letter = tl.load(text_ptr + t * M + at, mask=at < M, other=0).to(tl.int32)
        same = tl.load(place_ptr + letter * M + at, mask=at < M, other=0).to(tl.uint32)
        either = same | down
        zero = (((same & up) + up) ^ up) | same
        more = down | ((zero | up) ^ full)
        less = up & zero
        score += (more >> 31).to(tl.int32) - (less >> 31).to(tl.int32)
        more = (more << 1) | 1
        less = less << 1
        up = less | ((either | more) ^ full)
        down = more & either
    tl.store(out_ptr + at, score, mask=at < M)


def run(place, text):
    L, M = text.shape
    out = torch.empty((M,), device=text.device, dtype=torch.int32)
    block = 256
    bit_edits_kernel[(triton.cdiv(M, block),)](place, text, out, L, M, block, num_warps=4)
    return out
