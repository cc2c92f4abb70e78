# ruff: noqa: ANN001, ANN201, D103
"""Predictions of a forest of trees of six levels, each node of which asks for one feature."""

import torch
import triton
import triton.language as tl


@triton.jit
def tree_predict_kernel(
    x_ptr, feature_ptr, limit_ptr, leaf_ptr, out_ptr, n, n_trees,
    LEVELS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    score = tl.zeros((BLOCK,), dtype=tl.float32)
    for tree in range(0, n_trees):
        node = tl.zeros((BLOCK,), dtype=tl.int32)
        for _ in tl.static_range(LEVELS):
            at = tree * 63 + node
            feature = tl.load(feature_ptr + at)
            limit = tl.load(limit_ptr + at)
            x = tl.load(x_ptr + feature * n + i, mask=mask, other=0.0)
            node = 2 * node + 1 + (x > limit).to(tl.int32)
        score += tl.load(leaf_ptr + tree * 64 + node - 63)
    tl.store(out_ptr + i, score, mask=mask)


def run(x, feature, limit, leaf):
    n = x.shape[1]
    out = torch.empty((n,), device=x.device, dtype=torch.float32)
    BLOCK = 256
    tree_predict_kernel[(triton.cdiv(n, BLOCK),)](
        x, feature, limit, leaf, out, n, feature.shape[0], 6, BLOCK, num_warps=4
    )
    return out
