"""RMS normalisation and softmax of rows as operators of PyTorch, with gradients.

Rows stay in registers.  The gradient of the weight is a sum over all rows: every block adds up its
own, and a second launch adds up the blocks, always in the same order.
"""

from typing import Any

import torch
from torch import Tensor

import tileprof
import tileprof.lang as T

LOG2E = 1.4426950408889634


def name_of(x: Tensor) -> str:
    """The element type as kernels name it."""
    return NAMES[x.dtype]


NAMES = {
    torch.float64: "float64", torch.float32: "float32", torch.bfloat16: "bfloat16",
    torch.float16: "float16",
}  # fmt: skip


def sums_of(dtype: str):
    """The type in which sums are kept."""
    return T.float64 if dtype == "float64" else T.float32


@tileprof.jit
def normalized(X, W, epsilon: float, dtype: str = "float32", block_M: int = 4):
    M, N = T.dynamic("M"), T.const("N")
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    Y = T.empty((M, N), dtype)
    Scale = T.empty((M,), sums_of(dtype))
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        row = T.alloc_fragment((block_M, N), sums_of(dtype))
        square = T.alloc_fragment((block_M, N), sums_of(dtype))
        scale = T.alloc_fragment((block_M,), sums_of(dtype))
        T.copy(X[bx * block_M, 0], row)
        for i, j in T.Parallel(block_M, N):
            square[i, j] = row[i, j] * row[i, j]
        T.reduce_sum(square, scale, dim=1)
        for i in T.Parallel(block_M):
            scale[i] = T.rsqrt(scale[i] / N + epsilon)
            Scale[bx * block_M + i] = scale[i]
        for i, j in T.Parallel(block_M, N):
            Y[bx * block_M + i, j] = row[i, j] * scale[i] * W[j]
    return Y, Scale


@tileprof.jit
def normalized_backward(
    dY, X, W, Scale, dtype: str = "float32", block_M: int = 2, rows: int = 64, threads: int = 256
):
    M, N = T.dynamic("M"), T.const("N")
    dY: T.Tensor((M, N), dtype)
    X: T.Tensor((M, N), dtype)
    W: T.Tensor((N,), dtype)
    Scale: T.Tensor((M,), sums_of(dtype))
    dX = T.empty((M, N), dtype)
    dW = T.empty((N,), dtype)
    Parts = T.alloc_global((T.ceildiv(M, rows), N), sums_of(dtype))
    with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
        unit = T.alloc_fragment((block_M, N), sums_of(dtype))
        slope = T.alloc_fragment((block_M, N), sums_of(dtype))
        product = T.alloc_fragment((block_M, N), sums_of(dtype))
        mean = T.alloc_fragment((block_M,), sums_of(dtype))
        part = T.alloc_fragment((N,), sums_of(dtype))
        T.clear(part)
        for tile in T.serial(rows // block_M):
            first = bx * rows + tile * block_M
            T.copy(X[first, 0], unit)
            T.copy(dY[first, 0], slope)
            for i, j in T.Parallel(block_M, N):
                unit[i, j] *= Scale[first + i]
                product[i, j] = unit[i, j] * slope[i, j]
            T.reduce_sum(product, part, dim=0, clear=False)
            for i, j in T.Parallel(block_M, N):
                product[i, j] *= W[j]
            T.reduce_sum(product, mean, dim=1)
            for i, j in T.Parallel(block_M, N):
                inner = slope[i, j] * W[j] - unit[i, j] * (mean[i] / N)
                dX[first + i, j] = inner * Scale[first + i]
        for j in T.Parallel(N):
            Parts[bx, j] = part[j]
    with T.Kernel(T.ceildiv(N, 128), threads=128) as bx:
        total = T.alloc_fragment((128,), sums_of(dtype))
        T.clear(total)
        for block in T.serial(T.ceildiv(M, rows)):
            for j in T.Parallel(128):
                total[j] += Parts[block, bx * 128 + j]
        T.copy(total, dW[bx * 128])
    return dX, dW


def rms_norm_backward(
    d_out: Tensor, x: Tensor, weight: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    rows = d_out.view(-1, x.shape[-1]), x.reshape(-1, x.shape[-1])
    dx, dw = normalized_backward(*rows, weight, scale, dtype=name_of(x))
    return dx.view(x.shape), dw


@tileprof.op("case_studies::rms_norm", backward=rms_norm_backward, keeps=("scale",))
def rms_norm(x: Tensor, weight: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Divide each row (the last dimension) by the root of its mean square; times a weight."""
    rows = x.reshape(-1, x.shape[-1])
    y, scale = normalized(rows, weight, epsilon=epsilon, dtype=name_of(x))
    y = y.view(x.shape)
    return y, scale


@tileprof.jit
def softmaxed(X, dtype: str = "float32", block_M: int = 4):
    M, N = T.dynamic("M"), T.const("N")
    X: T.Tensor((M, N), dtype)
    Y = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        row = T.alloc_fragment((block_M, N), sums_of(dtype))
        top = T.alloc_fragment((block_M,), sums_of(dtype))
        total = T.alloc_fragment((block_M,), sums_of(dtype))
        T.copy(X[bx * block_M, 0], row)
        T.reduce_max(row, top, dim=1)
        for i, j in T.Parallel(block_M, N):
            row[i, j] = T.exp2((row[i, j] - top[i]) * LOG2E)
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            Y[bx * block_M + i, j] = row[i, j] / total[i]
    return Y


@tileprof.jit
def softmaxed_backward(dY, Y, dtype: str = "float32", block_M: int = 2, threads: int = 256):
    M, N = T.dynamic("M"), T.const("N")
    dY: T.Tensor((M, N), dtype)
    Y: T.Tensor((M, N), dtype)
    dX = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
        y = T.alloc_fragment((block_M, N), sums_of(dtype))
        slope = T.alloc_fragment((block_M, N), sums_of(dtype))
        product = T.alloc_fragment((block_M, N), sums_of(dtype))
        dot = T.alloc_fragment((block_M,), sums_of(dtype))
        T.copy(Y[bx * block_M, 0], y)
        T.copy(dY[bx * block_M, 0], slope)
        for i, j in T.Parallel(block_M, N):
            product[i, j] = y[i, j] * slope[i, j]
        T.reduce_sum(product, dot, dim=1)
        for i, j in T.Parallel(block_M, N):
            dX[bx * block_M + i, j] = y[i, j] * (slope[i, j] - dot[i])
    return dX


def softmax_backward(d_out: Tensor, y: Tensor) -> Tensor:
    width = y.shape[-1]
    dx = softmaxed_backward(d_out.view(-1, width), y.view(-1, width), dtype=name_of(y))
    return dx.view(y.shape)


def _softmax_batched(info: Any, dims: Any, x: Tensor) -> Any:
    """A batch of tensors is one with another dimension."""
    return softmax(x.movedim(dims[0], 0)), 0


@tileprof.op("case_studies::softmax", backward=softmax_backward, vmap=_softmax_batched)
def softmax(x: Tensor) -> Tensor:
    """Exponentials of each row (the last dimension) over their sum."""
    y = softmaxed(x.reshape(-1, x.shape[-1]), dtype=name_of(x))
    y = y.view(x.shape)
    return y
