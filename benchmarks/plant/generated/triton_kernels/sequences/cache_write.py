# ruff: noqa: ANN001, ANN201, D103
"""New keys written to the slots of a paged cache, whose pages are laid out head by head."""

import triton
import triton.language as tl


@triton.jit
def cache_write_kernel(
    x_ptr, slot_ptr, cache_ptr, N, dim: tl.constexpr, page: tl.constexpr, block: tl.constexpr
):  # fmt: skip
    token = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    slot = tl.load(slot_ptr + token)
    x = tl.load(x_ptr + token * N + at, mask=at < N)
    head = slot // page * (N // dim) + at // dim
    place = (head * page + slot % page) * dim + at % dim
    tl.store(cache_ptr + place, x.to(tl.bfloat16), mask=at < N)


def run(x, slot, cache):
    (T, heads, dim), page = x.shape, cache.shape[2]
    N = heads * dim
    block = 1024
    cache_write_kernel[(T, triton.cdiv(N, block))](x, slot, cache, N, dim, page, block, num_warps=4)
    return cache
