# ruff: noqa: ANN001, ANN201, D103
"""Distances from a query to vectors of 16 bytes, each of which chooses from a table."""

import torch
import triton
import triton.language as tl


@triton.jit
def pq_distances_kernel(code_ptr, table_ptr, out_ptr, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = tl.arange(0, PARTS)
    live = i < n
    code = tl.load(code_ptr + i[:, None] * PARTS + p[None, :], mask=live[:, None], other=0)
    entry = p[None, :] * 256 + code.to(tl.int32)
    part = tl.load(table_ptr + entry, mask=live[:, None], other=0.0)
    tl.store(out_ptr + i, tl.sum(part, 1), mask=live)


def run(code, table):
    n, parts = code.shape
    out = torch.empty((n,), device=code.device, dtype=torch.float32)
    BLOCK = 256
    pq_distances_kernel[(triton.cdiv(n, BLOCK),)](code, table, out, n, parts, BLOCK, num_warps=4)
    return out
