# ruff: noqa: ANN001, ANN201, D103
"""Normal numbers that fill a space evenly: Sobol's points through the normal law's quantiles."""

import triton
import triton.language as tl


@triton.jit
def normal_quantile(u):
    """Return the number below which a share of a normal law lies, by rational functions."""
    q = u - 0.5
    r = q * q
    num = ((-39.69683 * r + 220.9461) * r - 275.9285) * r + 138.3578
    num = (num * r - 30.66480) * r + 2.506628
    den = ((-54.47610 * r + 161.5858) * r - 155.6990) * r + 66.80131
    den = (den * r - 13.28068) * r + 1.0
    middle = q * num / den
    t = tl.sqrt(-2.0 * tl.log(tl.minimum(u, 1.0 - u)))
    num = ((-0.007784894 * t - 0.3223965) * t - 2.400758) * t - 2.549732
    num = (num * t + 4.374664) * t + 2.938164
    den = (((0.007784696 * t + 0.3224671) * t + 2.445134) * t + 3.754409) * t + 1.0
    tail = num / den
    tail = tl.where(q > 0.0, -tail, tail)
    return tl.where(tl.abs(q) < 0.47575, middle, tail)


@triton.jit
def sobol_normal_kernel(direction_ptr, out_ptr, n_points, BITS: tl.constexpr, BLOCK: tl.constexpr):
    dim = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n_points
    gray = i ^ (i >> 1)
    point = tl.zeros((BLOCK,), dtype=tl.int32)
    for bit in range(0, BITS):
        direction = tl.load(direction_ptr + dim * BITS + bit)
        point = point ^ (((gray >> bit) & 1) * direction)
    u = ((point >> 8).to(tl.float32) + 0.5) * (1.0 / 8388608.0)
    tl.store(out_ptr + dim * n_points + i, normal_quantile(u), mask=mask)


def run(direction, out):
    dims, bits = direction.shape
    n_points = out.shape[1]
    BLOCK = 1024
    sobol_normal_kernel[(triton.cdiv(n_points, BLOCK), dims)](
        direction, out, n_points, bits, BLOCK, num_warps=4
    )
    return out
