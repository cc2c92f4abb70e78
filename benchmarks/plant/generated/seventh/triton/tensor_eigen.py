# ruff: noqa: ANN001, ANN201, D103
"""Eigenvalues of symmetric tensors of 3 by 3, by four sweeps of Jacobi's rotations."""

import torch
import triton
import triton.language as tl


@triton.jit
def rotated(app, aqq, apq, arp, arq):
    """Return a tensor's elements after the rotation by which `apq` becomes 0."""
    apart = aqq - app
    root = tl.sqrt(apart * apart + 4.0 * apq * apq)
    t = 2.0 * apq / (tl.abs(apart) + root + 1e-30)
    t = tl.where(apart < 0.0, -t, t)
    c = 1.0 / tl.sqrt(1.0 + t * t)
    s = t * c
    return app - t * apq, aqq + t * apq, c * arp - s * arq, s * arp + c * arq


@triton.jit
def tensor_eigen_kernel(t_ptr, out_ptr, n, BLOCK: tl.constexpr):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = k < n
    xx = tl.load(t_ptr + k, mask=m, other=0.0)
    yy = tl.load(t_ptr + n + k, mask=m, other=0.0)
    zz = tl.load(t_ptr + 2 * n + k, mask=m, other=0.0)
    xy = tl.load(t_ptr + 3 * n + k, mask=m, other=0.0)
    yz = tl.load(t_ptr + 4 * n + k, mask=m, other=0.0)
    xz = tl.load(t_ptr + 5 * n + k, mask=m, other=0.0)
    for _ in range(4):
        xx, yy, xz, yz = rotated(xx, yy, xy, xz, yz)
        xy = tl.zeros((BLOCK,), dtype=tl.float32)
        yy, zz, xy, xz = rotated(yy, zz, yz, xy, xz)
        yz = tl.zeros((BLOCK,), dtype=tl.float32)
        xx, zz, xy, yz = rotated(xx, zz, xz, xy, yz)
        xz = tl.zeros((BLOCK,), dtype=tl.float32)
    low, high = tl.minimum(xx, yy), tl.maximum(xx, yy)
    tl.store(out_ptr + k, tl.minimum(low, zz), mask=m)
    tl.store(out_ptr + n + k, tl.maximum(low, tl.minimum(high, zz)), mask=m)
    tl.store(out_ptr + 2 * n + k, tl.maximum(high, zz), mask=m)


def run(tensor):
    n = tensor.shape[1]
    out = torch.empty((3, n), device=tensor.device, dtype=torch.float32)
    BLOCK = 512
    tensor_eigen_kernel[(triton.cdiv(n, BLOCK),)](tensor, out, n, BLOCK, num_warps=4)
    return out
