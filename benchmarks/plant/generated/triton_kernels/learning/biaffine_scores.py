# ruff: noqa: ANN001, ANN201, D103
"""How likely each word of a sentence is the head of each other one, by a bilinear form."""

import torch
import triton
import triton.language as tl


@triton.jit
def biaffine_scores_kernel(
    head_ptr, dep_ptr, u_ptr, bias_ptr, out_ptr, L,
    stride_b, stride_ob, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    pid_m = tl.program_id(0)
    pid_b = tl.program_id(1)
    rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    rn = tl.arange(0, BLOCK_N)
    rd = tl.arange(0, D)
    dep = tl.load(dep_ptr + pid_b * stride_b + rm[:, None] * D + rd[None, :],
                  mask=rm[:, None] < L, other=0.0)  # fmt: skip
    u = tl.load(u_ptr + rd[:, None] * D + rd[None, :])
    mid = tl.dot(dep, u).to(tl.bfloat16)
    for n in range(0, L, BLOCK_N):
        head = tl.load(head_ptr + pid_b * stride_b + (n + rn)[None, :] * D + rd[:, None],
                       mask=(n + rn)[None, :] < L, other=0.0)  # fmt: skip
        bias = tl.load(bias_ptr + pid_b * L + n + rn, mask=n + rn < L, other=0.0)
        score = tl.dot(mid, head) + bias[None, :]
        mask = (rm[:, None] < L) & ((n + rn)[None, :] < L)
        place = pid_b * stride_ob + rm[:, None] * L + (n + rn)[None, :]
        tl.store(out_ptr + place, score.to(tl.float16), mask=mask)


def run(head, dep, u, bias):
    batch, L, D = head.shape
    out = torch.empty((batch, L, L), device=head.device, dtype=torch.float16)
    BLOCK_M, BLOCK_N = 64, 64
    biaffine_scores_kernel[(triton.cdiv(L, BLOCK_M), batch)](
        head, dep, u, bias, out, L, head.stride(0), out.stride(0), D, BLOCK_M, BLOCK_N,
        num_warps=4, num_stages=2,
    )  # fmt: skip
    return out
