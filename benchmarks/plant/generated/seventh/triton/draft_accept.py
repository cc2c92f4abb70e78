# ruff: noqa: ANN001, ANN201, D103
"""How many tokens of each draft a model would have chosen itself, up to the first other one."""

import torch
import triton
import triton.language as tl


@triton.jit
def draft_accept_kernel(logit_ptr, draft_ptr, out_ptr, V, drafts, BLOCK_V: tl.constexpr):
    seq = tl.program_id(0)
    cols = tl.arange(0, BLOCK_V)
    accepted = 0
    alive = 1
    k = 0
    while (k < drafts) & (alive > 0):
        row = (seq * drafts + k).to(tl.int64) * V
        best = tl.full((BLOCK_V,), float("-inf"), dtype=tl.float32)
        at = tl.zeros((BLOCK_V,), dtype=tl.int32)
        for start in range(0, V, BLOCK_V):
            token = start + cols
            logit = tl.load(logit_ptr + row + token, mask=token < V, other=float("-inf"))
            logit = logit.to(tl.float32)
            at = tl.where(logit > best, token, at)
            best = tl.maximum(best, logit)
        top = tl.max(best, 0)
        first = tl.min(tl.where(best == top, at, V), 0)
        drafted = tl.load(draft_ptr + seq * drafts + k)
        alive = (first == drafted).to(tl.int32)
        accepted += alive
        k += 1
    tl.store(out_ptr + seq, accepted)


def run(logit, draft):
    n_seq, drafts = draft.shape
    V = logit.shape[1]
    out = torch.empty((n_seq,), device=logit.device, dtype=torch.int32)
    draft_accept_kernel[(n_seq,)](logit, draft, out, V, drafts, 2048, num_warps=8)
    return out
