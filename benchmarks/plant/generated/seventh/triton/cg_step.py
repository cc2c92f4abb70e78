# ruff: noqa: ANN001, ANN201, D103
"""A step of conjugate gradients: a solution, its residual, and squares of that by parts."""

import torch
import triton
import triton.language as tl


@triton.jit
def cg_step_kernel(
    x_ptr, r_ptr, p_ptr, q_ptr, rho_ptr, pq_ptr, out_ptr, part_ptr, N, BLOCK: tl.constexpr
):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < N
    alpha = tl.load(rho_ptr) / tl.load(pq_ptr)
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    r = tl.load(r_ptr + offs, mask=mask, other=0.0)
    p = tl.load(p_ptr + offs, mask=mask, other=0.0)
    q = tl.load(q_ptr + offs, mask=mask, other=0.0)
    x = x + alpha * p
    r = r - alpha * q
    tl.store(out_ptr + offs, x, mask=mask)
    tl.store(out_ptr + N + offs, r, mask=mask)
    tl.store(part_ptr + pid, tl.sum(r * r, 0))


def run(x, r, p, q, rho, pq):
    N = x.shape[0]
    BLOCK = 2048
    out = torch.empty((2, N), device=x.device, dtype=torch.float32)
    part = torch.empty((triton.cdiv(N, BLOCK),), device=x.device, dtype=torch.float32)
    cg_step_kernel[(triton.cdiv(N, BLOCK),)](x, r, p, q, rho, pq, out, part, N, BLOCK, num_warps=8)
    return out
