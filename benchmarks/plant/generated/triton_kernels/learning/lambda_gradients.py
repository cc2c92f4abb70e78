# ruff: noqa: ANN001, ANN201, D103
"""Gradients of a list's scores by LambdaRank: pairs weigh what exchanging them would change."""

import torch
import triton
import triton.language as tl


@triton.jit
def lambda_gradients_kernel(
    score_ptr, gain_ptr, discount_ptr, out_ptr, n_docs, ROWS: tl.constexpr, COLS: tl.constexpr
):
    query = tl.program_id(1) * n_docs
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    ok_r = r < n_docs
    s_r = tl.load(score_ptr + query + r, mask=ok_r, other=0.0)
    g_r = tl.load(gain_ptr + query + r, mask=ok_r, other=0.0)
    d_r = tl.load(discount_ptr + query + r, mask=ok_r, other=0.0)
    acc = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, n_docs, COLS):
        c = start + tl.arange(0, COLS)
        ok_c = c < n_docs
        s_c = tl.load(score_ptr + query + c, mask=ok_c, other=0.0)
        g_c = tl.load(gain_ptr + query + c, mask=ok_c, other=0.0)
        d_c = tl.load(discount_ptr + query + c, mask=ok_c, other=0.0)
        dgain = g_r[:, None] - g_c[None, :]
        sign = tl.where(dgain > 0.0, 1.0, -1.0)
        change = tl.abs(dgain * (d_r[:, None] - d_c[None, :]))
        rho = 1.0 / (1.0 + tl.exp(sign * (s_r[:, None] - s_c[None, :])))
        acc += tl.where(ok_c[None, :], sign * rho * change, 0.0)
    tl.store(out_ptr + query + r, tl.sum(acc, 1), mask=ok_r)


def run(score, gain, discount):
    n_queries, n_docs = score.shape
    out = torch.empty_like(score)
    ROWS, COLS = 64, 64
    lambda_gradients_kernel[(triton.cdiv(n_docs, ROWS), n_queries)](
        score, gain, discount, out, n_docs, ROWS, COLS, num_warps=4
    )
    return out
