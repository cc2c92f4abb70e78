# ruff: noqa: ANN001, ANN201, D103
"""Checksums of records of 64 bytes by a table of 256 entries, as storage checks its blocks."""

import torch
import triton
import triton.language as tl


@triton.jit
def crc_records_kernel(word_ptr, table_ptr, crc_ptr, n, WORDS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    crc = tl.full((BLOCK,), -1, dtype=tl.int32)
    for w in range(0, WORDS):
        word = tl.load(word_ptr + w * n + i, mask=mask, other=0)
        for byte in tl.static_range(4):
            place = (crc ^ (word >> (8 * byte))) & 255
            entry = tl.load(table_ptr + place)
            crc = ((crc >> 8) & 0x00FFFFFF) ^ entry
    tl.store(crc_ptr + i, crc ^ -1, mask=mask)


def run(word, table):
    words, n = word.shape
    crc = torch.empty((n,), device=word.device, dtype=torch.int32)
    BLOCK = 256
    crc_records_kernel[(triton.cdiv(n, BLOCK),)](word, table, crc, n, words, BLOCK, num_warps=4)
    return crc
