# ruff: noqa: ANN001, ANN201, D103
"""Many systems of three diagonals, each by one lane: down to the end, and back."""

import torch
import triton
import triton.language as tl


@triton.jit
def tridiagonal_kernel(
    low_ptr, main_ptr, high_ptr, right_ptr, kept_ptr, out_ptr, L, N, block: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0) * block + tl.arange(0, block)
    real = at < N
    ratio = tl.zeros((block,), dtype=tl.float32)
    known = tl.zeros((block,), dtype=tl.float32)
    for t in range(0, L):
        place = t * N + at
        low = tl.load(low_ptr + place, mask=real, other=0.0)
        main = tl.load(main_ptr + place, mask=real, other=1.0)
        high = tl.load(high_ptr + place, mask=real, other=0.0)
        right = tl.load(right_ptr + place, mask=real, other=0.0)
        pivot = main - low * ratio
        known = (right - low * known) / pivot
        ratio = high / pivot
        tl.store(kept_ptr + place, ratio, mask=real)
        tl.store(out_ptr + place, known, mask=real)
    x = tl.zeros((block,), dtype=tl.float32)
    for back in range(0, L):
        place = (L - 1 - back) * N + at
        share = tl.load(kept_ptr + place, mask=real, other=0.0)
        whole = tl.load(out_ptr + place, mask=real, other=0.0)
        x = whole - share * x
        tl.store(out_ptr + place, x, mask=real)


def run(low, main, high, right):
    L, N = main.shape
    kept, out = torch.empty_like(main), torch.empty_like(main)
    block = 128
    tridiagonal_kernel[(triton.cdiv(N, block),)](
        low, main, high, right, kept, out, L, N, block, num_warps=4
    )
    return out
