# ruff: noqa: ANN001, ANN201, D103
"""Which characters of a JSON text lie in strings, a bit for each, within words of 32."""

import torch
import triton
import triton.language as tl


@triton.jit
def quote_masks_kernel(text_ptr, mask_ptr, n_words, BLOCK: tl.constexpr):
    w = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    lane = tl.arange(0, 32)
    live = w < n_words
    at = w[:, None] * 32 + lane[None, :]
    char = tl.load(text_ptr + at, mask=live[:, None], other=0)
    bits = (char == 34).to(tl.int32) << lane[None, :]
    inside = tl.sum(bits, 1)
    inside ^= inside << 1
    inside ^= inside << 2
    inside ^= inside << 4
    inside ^= inside << 8
    inside ^= inside << 16
    tl.store(mask_ptr + w, inside, mask=live)


def run(text):
    n_words = text.numel() // 32
    inside = torch.empty((n_words,), device=text.device, dtype=torch.int32)
    BLOCK = 128
    quote_masks_kernel[(triton.cdiv(n_words, BLOCK),)](text, inside, n_words, BLOCK, num_warps=4)
    return inside
