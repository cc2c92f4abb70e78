# ruff: noqa: ANN001, ANN201, D103
"""Many streams of symbols coded by asymmetric numeral systems, which write 16 bits at a time."""

import torch
import triton
import triton.language as tl


@triton.jit
def rans_encode_kernel(
    sym_ptr, freq_ptr, cum_ptr, out_ptr, length, lanes, BITS: tl.constexpr, BLOCK: tl.constexpr
):
    lane = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = lane < lanes
    state = tl.full((BLOCK,), 1 << 16, dtype=tl.uint32)
    for t in range(0, length):
        s = tl.load(sym_ptr + t * lanes + lane, mask=ok, other=0).to(tl.int32) & 255
        f = tl.load(freq_ptr + s, mask=ok, other=1).to(tl.uint32)
        c = tl.load(cum_ptr + s, mask=ok, other=0).to(tl.uint32)
        full = (state >> (32 - BITS)) >= f
        word = tl.where(full, (state & 0xFFFF).to(tl.int32), -1)
        tl.store(out_ptr + t * lanes + lane, word, mask=ok)
        state = tl.where(full, state >> 16, state)
        state = ((state // f) << BITS) + state % f + c
    tl.store(out_ptr + length * lanes + lane, (state & 0x7FFFFFFF).to(tl.int32), mask=ok)


def run(sym, freq, cum):
    length, lanes = sym.shape
    out = torch.empty((length + 1, lanes), device=sym.device, dtype=torch.int32)
    BLOCK = 256
    rans_encode_kernel[(triton.cdiv(lanes, BLOCK),)](
        sym, freq, cum, out, length, lanes, 12, BLOCK, num_warps=4
    )
    return out
