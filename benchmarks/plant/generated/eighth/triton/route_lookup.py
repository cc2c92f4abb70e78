# ruff: noqa: ANN001, ANN201, D103
"""Next hops of packets, by a table of the first 16 bits of an address and tables behind it."""

import torch
import triton
import triton.language as tl


@triton.jit
def route_lookup_kernel(address_ptr, first_ptr, second_ptr, hop_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    address = tl.load(address_ptr + i, mask=mask, other=0)
    hop = tl.load(first_ptr + (address >> 15), mask=mask, other=0)
    longer = hop < 0
    place = (-hop - 1) * 256 + ((address >> 7) & 255)
    behind = tl.load(second_ptr + place, mask=mask & longer, other=0)
    tl.store(hop_ptr + i, tl.where(longer, behind, hop), mask=mask)


def run(address, first, second):
    n = address.numel()
    hop = torch.empty_like(address)
    BLOCK = 1024
    route_lookup_kernel[(triton.cdiv(n, BLOCK),)](
        address, first, second, hop, n, BLOCK, num_warps=4
    )
    return hop
