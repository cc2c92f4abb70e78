# ruff: noqa: ANN001, ANN201, D103
"""Colours of points as seen from their directions, by nine spherical harmonics."""

import torch
import triton
import triton.language as tl


@triton.jit
def sh_colours_kernel(direction_ptr, weight_ptr, out_ptr, N, block: tl.constexpr):
    colour = tl.program_id(1)
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < N
    x = tl.load(direction_ptr + at, mask=real, other=0.0)
    y = tl.load(direction_ptr + N + at, mask=real, other=0.0)
    z = tl.load(direction_ptr + 2 * N + at, mask=real, other=1.0)
    by = tl.rsqrt(x * x + y * y + z * z)
    x, y, z = x * by, y * by, z * by
    weight = weight_ptr + colour * 9 * N + at
    light = 0.28209479 * tl.load(weight, mask=real, other=0.0) + 0.5
    light -= 0.48860251 * y * tl.load(weight + N, mask=real, other=0.0)
    light += 0.48860251 * z * tl.load(weight + 2 * N, mask=real, other=0.0)
    light -= 0.48860251 * x * tl.load(weight + 3 * N, mask=real, other=0.0)
    light += 1.09254843 * x * y * tl.load(weight + 4 * N, mask=real, other=0.0)
    light -= 1.09254843 * y * z * tl.load(weight + 5 * N, mask=real, other=0.0)
    high = 0.31539157 * (2.0 * z * z - x * x - y * y)
    light += high * tl.load(weight + 6 * N, mask=real, other=0.0)
    light -= 1.09254843 * x * z * tl.load(weight + 7 * N, mask=real, other=0.0)
    wide = 0.54627421 * (x * x - y * y)
    light += wide * tl.load(weight + 8 * N, mask=real, other=0.0)
    tl.store(out_ptr + colour * N + at, tl.maximum(light, 0.0), mask=real)


def run(direction, weight):
    N = direction.shape[1]
    out = torch.empty_like(direction)
    block = 512
    sh_colours_kernel[(triton.cdiv(N, block), 3)](direction, weight, out, N, block, num_warps=4)
    return out
