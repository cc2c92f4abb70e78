# ruff: noqa: ANN001, ANN201, D103
"""Values of a polynomial over the field of the prime 2^31 - 1 at many points, as proofs need."""

import torch
import triton
import triton.language as tl


@triton.jit
def field_horner_kernel(x_ptr, coef_ptr, y_ptr, n, degree, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0).to(tl.int64)
    y = tl.zeros((BLOCK,), dtype=tl.int64)
    for k in range(0, degree):
        y = y * x + tl.load(coef_ptr + k)
        y = (y & 0x7FFFFFFF) + (y >> 31)
        y = tl.where(y >= 0x7FFFFFFF, y - 0x7FFFFFFF, y)
    tl.store(y_ptr + i, y.to(tl.int32), mask=mask)


def run(x, coef):
    n = x.shape[0]
    y = torch.empty_like(x)
    BLOCK = 512
    field_horner_kernel[(triton.cdiv(n, BLOCK),)](x, coef, y, n, coef.shape[0], BLOCK, num_warps=4)
    return y
