# ruff: noqa: ANN001, ANN201, D103
"""Rows of a table that a batch has touched, by a step of Adagrad."""

import torch
import triton
import triton.language as tl


@triton.jit
def sparse_adagrad_kernel(
    w_ptr, square_ptr, index_ptr, grad_ptr, out_ptr, N, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.program_id(1) * block + tl.arange(0, block)
    place = tl.load(index_ptr + row) * N
    real = at < N
    w = tl.load(w_ptr + place + at, mask=real, other=0.0)
    square = tl.load(square_ptr + place + at, mask=real, other=1.0)
    grad = tl.load(grad_ptr + row * N + at, mask=real, other=0.0)
    total = square + grad * grad
    step = w - grad * 0.01 / tl.sqrt(total)
    tl.store(out_ptr + row * N + at, step, mask=real)


def run(w, square, index, grad):
    M, N = grad.shape
    out = torch.empty_like(grad)
    block = 256
    sparse_adagrad_kernel[(M, triton.cdiv(N, block))](
        w, square, index, grad, out, N, block, num_warps=2
    )
    return out
