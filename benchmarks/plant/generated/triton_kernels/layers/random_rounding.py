# ruff: noqa: ANN001, ANN201, D103
"""Numbers cut to sixteen bits, up or down by chance, so that their mean stays."""

import torch
import triton
import triton.language as tl


@triton.jit
def random_rounding_kernel(x_ptr, noise_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0)
    noise = tl.load(noise_ptr + at, mask=at < N, other=0)
    bits = x.to(tl.int32, bitcast=True) + (noise & 65535)
    y = (bits & -65536).to(tl.float32, bitcast=True)
    tl.store(out_ptr + at, y.to(tl.bfloat16), mask=at < N)


def run(x, noise):
    N = x.numel()
    out = torch.empty_like(x, dtype=torch.bfloat16)
    block = 1024
    random_rounding_kernel[(triton.cdiv(N, block),)](x, noise, out, N, block, num_warps=4)
    return out
