# ruff: noqa: ANN001, ANN201, D103
"""Sums of a column by the 32 groups of another one, in each part of the table."""

import triton
import triton.language as tl


@triton.jit
def group_by_sums_kernel(
    key_ptr, value_ptr, out_ptr, N, part, groups: tl.constexpr, block: tl.constexpr
):
    group = tl.arange(0, groups)
    at = tl.arange(0, block)
    first = tl.program_id(0) * part
    sums = tl.zeros((groups, block), dtype=tl.float32)
    for n in range(0, part, block):
        place = first + n + at
        key = tl.load(key_ptr + place, mask=place < N, other=-1)
        value = tl.load(value_ptr + place, mask=place < N, other=0.0)
        sums += tl.where(key[None, :] == group[:, None], value[None, :], 0.0)
    total = tl.sum(sums, 1)
    tl.atomic_add(out_ptr + group, total)


def run(key, value, out):
    N = key.shape[0]
    part, block = 16384, 128
    group_by_sums_kernel[(triton.cdiv(N, part),)](key, value, out, N, part, 32, block, num_warps=4)
    return out
