# ruff: noqa: ANN001, ANN201, D103
"""Random walks over a graph in compressed rows, by a hash of each walk's number and step."""

import torch
import triton
import triton.language as tl


@triton.jit
def mix(h):
    h = (h ^ (h >> 16)) * 2146121005
    h = (h ^ (h >> 15)) * 2221713035
    return h ^ (h >> 16)


@triton.jit
def random_walks_kernel(indptr_ptr, index_ptr, seed_ptr, out_ptr, n_walks, steps,
                        BLOCK: tl.constexpr):  # fmt: skip
    walk = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    valid = walk < n_walks
    node = tl.load(seed_ptr + walk, mask=valid, other=0).to(tl.int32)
    state = walk.to(tl.uint32)
    for step in range(0, steps):
        row = tl.load(indptr_ptr + node, mask=valid, other=0)
        degree = tl.load(indptr_ptr + node + 1, mask=valid, other=1) - row
        state = mix(state + 2654435769)
        # 24 bits of the hash times a degree below 256 stay in 32 bits.
        pick = ((state >> 8) * degree.to(tl.uint32)) >> 24
        place = row + pick.to(tl.int32)
        node = tl.load(index_ptr + place, mask=valid, other=0).to(tl.int32)
        tl.store(out_ptr + step * n_walks + walk, node, mask=valid)


def run(indptr, index, seed, like):
    steps, n_walks = like.shape
    out = torch.empty_like(like)
    BLOCK = 256
    random_walks_kernel[(triton.cdiv(n_walks, BLOCK),)](
        indptr, index, seed, out, n_walks, steps, BLOCK, num_warps=4
    )
    return out
