# ruff: noqa: ANN001, ANN201, D103
"""A round of Bellman and Ford over a list of edges: ways through an edge, if they are shorter."""

import triton
import triton.language as tl


@triton.jit
def edge_relax_kernel(
    source_ptr, target_ptr, weight_ptr, dist_ptr, new_ptr, n_edges, BLOCK: tl.constexpr
):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = e < n_edges
    u = tl.load(source_ptr + e, mask=mask, other=0)
    v = tl.load(target_ptr + e, mask=mask, other=0)
    w = tl.load(weight_ptr + e, mask=mask, other=0)
    through = tl.load(dist_ptr + u, mask=mask, other=0) + w
    known = tl.load(dist_ptr + v, mask=mask, other=0)
    tl.atomic_min(new_ptr + v, through, mask=mask & (through < known))


def run(source, target, weight, dist):
    n_edges = source.shape[0]
    new = dist.clone()
    BLOCK = 1024
    edge_relax_kernel[(triton.cdiv(n_edges, BLOCK),)](
        source, target, weight, dist, new, n_edges, BLOCK, num_warps=8
    )
    return new
