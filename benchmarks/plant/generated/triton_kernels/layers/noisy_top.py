# ruff: noqa: ANN001, ANN201, D103
"""The greatest logit of each row after noise of a Gumbel distribution, as sampling takes."""

import torch
import triton
import triton.language as tl


@triton.jit
def noisy_top_kernel(x_ptr, chance_ptr, out_ptr, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, block)
    top = tl.full((block,), -1e30, dtype=tl.float32)
    for n in range(0, N, block):
        real = n + at < N
        x = tl.load(x_ptr + row * N + n + at, mask=real, other=-1e30).to(tl.float32)
        chance = tl.load(chance_ptr + row * N + n + at, mask=real, other=0.5)
        noise = -tl.log(-tl.log(chance))
        top = tl.maximum(top, x * 1.25 + noise)
    best = tl.max(top, 0)
    tl.store(out_ptr + row, best)


def run(x, chance):
    M, N = x.shape
    out = torch.empty((M,), device=x.device, dtype=torch.float32)
    block = 1024
    noisy_top_kernel[(M,)](x, chance, out, N, block, num_warps=4)
    return out
