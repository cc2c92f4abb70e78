# ruff: noqa: ANN001, ANN201, D103
"""Losses of answers by their group's advantage: clipped ratios, less a distance to a reference."""

import torch
import triton
import triton.language as tl


@triton.jit
def grpo_loss_kernel(
    new_ptr, old_ptr, ref_ptr, mask_ptr, adv_ptr, out_ptr, L, eps, beta, BLOCK: tl.constexpr
):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    adv = tl.load(adv_ptr + row)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    count = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, L, BLOCK):
        col = start + offs
        here = col < L
        new = tl.load(new_ptr + row * L + col, mask=here, other=0.0)
        old = tl.load(old_ptr + row * L + col, mask=here, other=0.0)
        ref = tl.load(ref_ptr + row * L + col, mask=here, other=0.0)
        keep = tl.load(mask_ptr + row * L + col, mask=here, other=0).to(tl.float32)
        ratio = tl.exp(new - old)
        clipped = tl.minimum(tl.maximum(ratio, 1.0 - eps), 1.0 + eps)
        gain = tl.minimum(ratio * adv, clipped * adv)
        kl = tl.exp(ref - new) - (ref - new) - 1.0
        total += (beta * kl - gain) * keep
        count += keep
    loss = tl.sum(total, 0) / tl.maximum(tl.sum(count, 0), 1.0)
    tl.store(out_ptr + row, loss)


def run(new, old, ref, mask, adv):
    B, L = new.shape
    out = torch.empty((B,), device=new.device, dtype=torch.float32)
    grpo_loss_kernel[(B,)](new, old, ref, mask, adv, out, L, 0.2, 0.04, 1024, num_warps=4)
    return out
