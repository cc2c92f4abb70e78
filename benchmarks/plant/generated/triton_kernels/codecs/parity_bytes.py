# ruff: noqa: ANN001, ANN201, D103
"""The two parities of RAID 6, of words of four bytes: all disks' sum, and one in powers of two."""

import torch
import triton
import triton.language as tl


@triton.jit
def doubled(q):
    """Return four bytes, each times two in the field of 256 elements."""
    carry = (q >> 7) & 0x01010101
    return ((q & 0x7F7F7F7F) << 1) ^ (carry * 0x1D)


@triton.jit
def parity_bytes_kernel(data_ptr, p_ptr, n_words, disks: tl.constexpr, BLOCK: tl.constexpr):
    word = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = word < n_words
    p = tl.zeros((BLOCK,), dtype=tl.int32)
    q = tl.zeros((BLOCK,), dtype=tl.int32)
    for disk in tl.static_range(disks):
        d = tl.load(data_ptr + (disks - 1 - disk) * n_words + word, mask=ok, other=0)
        p = p ^ d
        q = doubled(q) ^ d
    tl.store(p_ptr + word, p, mask=ok)
    tl.store(p_ptr + n_words + word, q, mask=ok)


def run(data):
    disks, n_words = data.shape
    parity = torch.empty((2, n_words), device=data.device, dtype=torch.int32)
    BLOCK = 1024
    parity_bytes_kernel[(triton.cdiv(n_words, BLOCK),)](
        data, parity, n_words, disks, BLOCK, num_warps=4
    )
    return parity
