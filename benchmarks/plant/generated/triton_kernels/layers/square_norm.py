# ruff: noqa: ANN001, ANN201, D103
"""Sum of the squares of all gradients, to which programs add what they have."""

import triton
import triton.language as tl


@triton.jit
def square_norm_kernel(x_ptr, out_ptr, N, block: tl.constexpr):
    at = tl.arange(0, block)
    sums = tl.zeros((block,), dtype=tl.float32)
    for n in range(tl.program_id(0) * block, N, tl.num_programs(0) * block):
        x = tl.load(x_ptr + n + at, mask=n + at < N, other=0.0).to(tl.float32)
        sums += x * x
    tl.atomic_add(out_ptr, tl.sum(sums, 0))


def run(x, out):
    N = x.numel()
    block = 2048
    parts = 1056
    square_norm_kernel[(parts,)](x, out, N, block, num_warps=8)
    return out
