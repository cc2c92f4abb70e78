# ruff: noqa: ANN001, ANN201, D103
"""Gradient of a layer norm's input, from the statistics that the forward pass has kept."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_grad_kernel(
    dy_ptr, x_ptr, w_ptr, mean_ptr, factor_ptr, dx_ptr, N, block: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, block)
    dy = tl.load(dy_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=at < N, other=0.0)
    mean = tl.load(mean_ptr + row)
    factor = tl.load(factor_ptr + row)
    normal = tl.where(at < N, (x - mean) * factor, 0.0)
    grad = dy * w
    level = tl.sum(grad, 0) / N
    along = tl.sum(grad * normal, 0) / N
    dx = (grad - level - normal * along) * factor
    tl.store(dx_ptr + row * N + at, dx.to(tl.bfloat16), mask=at < N)


def run(dy, x, w, mean, factor):
    M, N = x.shape
    dx = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    layer_norm_grad_kernel[(M,)](dy, x, w, mean, factor, dx, N, block, num_warps=8)
    return dx
