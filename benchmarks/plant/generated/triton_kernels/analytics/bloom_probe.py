# ruff: noqa: ANN001, ANN201, D103
"""Which keys may be in a set, by four bits each in a filter of 2**27 bits."""

import torch
import triton
import triton.language as tl


@triton.jit
def bloom_probe_kernel(filter_ptr, key_ptr, out_ptr, N, bits, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    key = tl.load(key_ptr + at, mask=at < N, other=0)
    found = tl.full((block,), 1, dtype=tl.int32)
    mixed = key.to(tl.uint32)
    for _ in tl.static_range(4):
        mixed = (mixed ^ (mixed >> 16)) * 73244475
        mixed = mixed ^ (mixed >> 15)
        bit = (mixed & (bits - 1)).to(tl.int32)
        word = tl.load(filter_ptr + (bit >> 5), mask=at < N, other=0)
        found = found & (word >> (bit & 31))
    tl.store(out_ptr + at, (found & 1).to(tl.int8), mask=at < N)


def run(words, key):
    N = key.shape[0]
    out = torch.empty((N,), device=key.device, dtype=torch.int8)
    block = 512
    bloom_probe_kernel[(triton.cdiv(N, block),)](
        words, key, out, N, words.shape[0] * 32, block, num_warps=4
    )
    return out
