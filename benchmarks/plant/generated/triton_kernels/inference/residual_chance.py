# ruff: noqa: ANN001, ANN201, D103
"""Chances by which a refused token is drawn again: the target's, less those of the draft."""

import torch
import triton
import triton.language as tl


@triton.jit
def residual_chance_kernel(target_ptr, draft_ptr, out_ptr, row_stride, n_cols, BLOCK: tl.constexpr):
    row_idx = tl.program_id(0)
    target_row_ptr = target_ptr + row_idx * row_stride
    draft_row_ptr = draft_ptr + row_idx * row_stride
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    target = tl.load(target_row_ptr + cols, mask=mask, other=0.0)
    draft = tl.load(draft_row_ptr + cols, mask=mask, other=0.0)
    rest = tl.maximum(target - draft, 0.0)
    total = tl.sum(rest, axis=0)
    # Where both agree everywhere nothing is ever refused.
    inverse = tl.where(total > 0.0, 1.0 / total, 0.0)
    tl.store(out_ptr + row_idx * row_stride + cols, rest * inverse, mask=mask)


def run(target, draft):
    n_rows, n_cols = target.shape
    out = torch.empty_like(target)
    BLOCK = triton.next_power_of_2(n_cols)
    residual_chance_kernel[(n_rows,)](
        target, draft, out, target.stride(0), n_cols, BLOCK, num_warps=16
    )
    return out
