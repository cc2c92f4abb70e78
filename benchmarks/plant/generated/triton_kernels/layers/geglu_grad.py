# ruff: noqa: ANN001, ANN201, D103
"""Gradients of both halves of a unit that a GELU gates."""

import torch
import triton
import triton.language as tl


@triton.jit
def geglu_grad_kernel(gate_ptr, up_ptr, dy_ptr, out_ptr, M, N, block: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    gate = tl.load(gate_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    inner = gate * (1.59576912 + 0.07135481 * gate * gate)
    chance = 1.0 / (1.0 + tl.exp(-inner))
    slope = chance + gate * chance * (1.0 - chance) * (1.59576912 + 0.21406444 * gate * gate)
    first = dy * up * slope
    second = dy * gate * chance
    tl.store(out_ptr + row * N + at, first.to(tl.bfloat16), mask=at < N)
    tl.store(out_ptr + (M + row) * N + at, second.to(tl.bfloat16), mask=at < N)


def run(gate, up, dy):
    M, N = gate.shape
    out = torch.empty((2, M, N), device=gate.device, dtype=gate.dtype)
    block = 1024
    geglu_grad_kernel[(M, triton.cdiv(N, block))](gate, up, dy, out, M, N, block, num_warps=4)
    return out
