# ruff: noqa: ANN001, ANN201, D103
"""How often short reads stand in a genome, by an index of its transform: counts and bits."""

import torch
import triton
import triton.language as tl


@triton.jit
def popcount(x):
    x = x - ((x >> 1) & 0x55555555)
    x = (x & 0x33333333) + ((x >> 2) & 0x33333333)
    x = (x + (x >> 4)) & 0x0F0F0F0F
    return (x * 0x01010101) >> 24


@triton.jit
def rank(occ_ptr, low_ptr, high_ptr, symbol, place, live):
    word = place >> 5
    before = tl.load(occ_ptr + word * 4 + symbol, mask=live, other=0)
    low = tl.load(low_ptr + word, mask=live, other=0).to(tl.uint32, bitcast=True)
    high = tl.load(high_ptr + word, mask=live, other=0).to(tl.uint32, bitcast=True)
    low = tl.where((symbol & 1) > 0, low, low ^ 0xFFFFFFFF)
    high = tl.where((symbol & 2) > 0, high, high ^ 0xFFFFFFFF)
    below = (tl.full(place.shape, 1, tl.uint32) << (place & 31).to(tl.uint32)) - 1
    return before + popcount(low & high & below).to(tl.int32)


@triton.jit
def fm_search_kernel(
    read_ptr, occ_ptr, low_ptr, high_ptr, first_ptr, out_ptr, n_reads, length, n_text,
    BLOCK: tl.constexpr,
):  # fmt: skip
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = r < n_reads
    begin = tl.zeros((BLOCK,), dtype=tl.int32)
    end = tl.full((BLOCK,), 0, dtype=tl.int32) + n_text
    for step in range(0, length):
        symbol = tl.load(read_ptr + step * n_reads + r, mask=live, other=0).to(tl.int32)
        start = tl.load(first_ptr + symbol, mask=live, other=0)
        begin = start + rank(occ_ptr, low_ptr, high_ptr, symbol, begin, live)
        end = start + rank(occ_ptr, low_ptr, high_ptr, symbol, end, live)
    tl.store(out_ptr + r, end - begin, mask=live)


def run(read, occ, low, high, first):
    length, n_reads = read.shape
    out = torch.empty((n_reads,), device=read.device, dtype=torch.int32)
    BLOCK = 128
    n_text = (low.shape[0] - 1) * 32
    fm_search_kernel[(triton.cdiv(n_reads, BLOCK),)](
        read, occ, low, high, first, out, n_reads, length, n_text, BLOCK, num_warps=4
    )
    return out
