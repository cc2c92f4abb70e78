# ruff: noqa: ANN001, ANN201, D103
"""Messages of a code's parity checks by min-sum: to each bit the others' least, and a sign."""

import torch
import triton
import triton.language as tl


@triton.jit
def ldpc_checks_kernel(
    llr_ptr, var_ptr, msg_ptr, words, damping, DEG: tl.constexpr, BLOCK_W: tl.constexpr
):
    check = tl.program_id(0)
    w = tl.program_id(1) * BLOCK_W + tl.arange(0, BLOCK_W)
    e = tl.arange(0, DEG)
    var = tl.load(var_ptr + check * DEG + e)
    llr_at = var[:, None] * words + w[None, :]
    llr = tl.load(llr_ptr + llr_at, mask=w[None, :] < words, other=0.0)
    size = tl.abs(llr.to(tl.float32))
    minus = (llr < 0.0).to(tl.int32)
    odd = tl.sum(minus, 0) % 2
    first = tl.min(size, 0)
    at = tl.argmin(size, 0)
    own = e[:, None] == at[None, :]
    second = tl.min(tl.where(own, float("inf"), size), 0)
    least = tl.where(own, second[None, :], first[None, :]) * damping
    msg = tl.where(minus == odd[None, :], least, -least)
    place = (check * DEG + e)[:, None] * words + w[None, :]
    tl.store(msg_ptr + place, msg.to(tl.float16), mask=w[None, :] < words)


def run(llr, var):
    (checks, degree), words = var.shape, llr.shape[1]
    msg = torch.empty((checks * degree, words), device=llr.device, dtype=torch.float16)
    BLOCK_W = 256
    ldpc_checks_kernel[(checks, triton.cdiv(words, BLOCK_W))](
        llr, var, msg, words, 0.8, degree, BLOCK_W, num_warps=4
    )
    return msg
