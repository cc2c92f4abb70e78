# ruff: noqa: ANN001, ANN201, D103
"""Sound in bytes whose steps grow with the loudness, as telephones send it."""

import torch
import triton
import triton.language as tl


@triton.jit
def mu_law_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0)
    loud = tl.minimum(tl.abs(x), 1.0)
    part = tl.log(1.0 + 255.0 * loud) * 0.18033688
    y = tl.floor(tl.where(x < 0.0, -part, part) * 127.0 + 0.5)
    tl.store(out_ptr + at, y.to(tl.int8), mask=at < N)


def run(x):
    N = x.shape[0]
    out = torch.empty((N,), device=x.device, dtype=torch.int8)
    block = 2048
    mu_law_kernel[(triton.cdiv(N, block),)](x, out, N, block, num_warps=4)
    return out
