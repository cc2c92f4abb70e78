# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
"""Kernels of the tests of operators."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def scale_rows(X, S, block: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    S: T.Tensor((M,), T.float64)
    Y = T.empty((M, N), T.float64)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx:
        for i, j in T.Parallel(block, N):
            Y[bx * block + i, j] = X[bx * block + i, j] * S[bx * block + i]
    return Y


@tileprof.jit
def scale_in_place(X, S):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    S: T.Tensor((M,), T.float64)
    with T.Kernel(M, threads=128) as bx:
        for j in T.Parallel(N):
            X[bx, j] = X[bx, j] * S[bx]


@tileprof.jit
def scale_rows_backward(dY, X, S, block: int = 8):
    M, N = T.const("M, N")
    dY: T.Tensor((M, N), T.float64)
    X: T.Tensor((M, N), T.float64)
    S: T.Tensor((M,), T.float64)
    dX = T.empty((M, N), T.float64)
    dS = T.empty((M,), T.float64)
    with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
        products = T.alloc_fragment((block, N), T.float64)
        sums = T.alloc_fragment((block,), T.float64)
        for i, j in T.Parallel(block, N):
            dX[bx * block + i, j] = dY[bx * block + i, j] * S[bx * block + i]
            products[i, j] = dY[bx * block + i, j] * X[bx * block + i, j]
        T.reduce_sum(products, sums, dim=1)
        T.copy(sums, dS[bx * block])
    return dX, dS


@tileprof.jit
def first_gradient(dY, S):
    M, N = T.const("M, N")
    dY: T.Tensor((M, N), T.float64)
    S: T.Tensor((M,), T.float64)
    dX = T.empty((M, N), T.float64)
    with T.Kernel(M, threads=64) as bx:
        for j in T.Parallel(N):
            dX[bx, j] = dY[bx, j] * S[bx]
    return dX


@tileprof.jit
def norm_rows(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    Y = T.empty((M, N), T.float64)
    R = T.empty((M,), T.float64)
    with T.Kernel(M, threads=64) as bx:
        total = T.float64(0)
        for j in T.serial(N):
            total += X[bx, j] * X[bx, j]
        for j in T.Parallel(N):
            Y[bx, j] = X[bx, j] * T.rsqrt(total)
        R[bx] = T.rsqrt(total)
    return Y, R


@tileprof.jit
def norm_rows_backward(dY, Y, R):
    M, N = T.const("M, N")
    dY: T.Tensor((M, N), T.float64)
    Y: T.Tensor((M, N), T.float64)
    R: T.Tensor((M,), T.float64)
    dX = T.empty((M, N), T.float64)
    with T.Kernel(M, threads=64) as bx:
        total = T.float64(0)
        for j in T.serial(N):
            total += dY[bx, j] * Y[bx, j]
        for j in T.Parallel(N):
            dX[bx, j] = (dY[bx, j] - Y[bx, j] * total) * R[bx]
    return dX


@tileprof.jit
def asks_for_other(dY, X, S, other: int):
    M, N = T.const("M, N")
    dY: T.Tensor((M, N), T.float64)
    X: T.Tensor((M, N), T.float64)
    S: T.Tensor((M,), T.float64)
    dX = T.empty((M, N), T.float64)
    dS = T.empty((M,), T.float64)
    with T.Kernel(M, threads=64) as bx:
        dX[bx, 0] = dY[bx, 0]
    return dX, dS


@tileprof.jit
def two_gradients(dY, dZ, X, S):
    M, N = T.const("M, N")
    dY: T.Tensor((M, N), T.float64)
    dZ: T.Tensor((M, N), T.float64)
    X: T.Tensor((M, N), T.float64)
    S: T.Tensor((M,), T.float64)
    dX = T.empty((M, N), T.float64)
    dS = T.empty((M,), T.float64)
    with T.Kernel(M, threads=64) as bx:
        dX[bx, 0] = dY[bx, 0]
    return dX, dS


@tileprof.jit
def positive_rows(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    Y = T.empty((M, N), T.float64)
    with T.Kernel(M, threads=64) as bx:
        T.device_assert(X[bx, 0] > 0, "the first of a row is positive")
        for j in T.Parallel(N):
            Y[bx, j] = X[bx, j]
    return Y


@tileprof.jit
def also_writes(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float64)
    Y = T.empty((M, N), T.float64)
    with T.Kernel(M, threads=64) as bx:
        for j in T.Parallel(N):
            Y[bx, j] = X[bx, j]
            X[bx, j] = 0.0
    return Y
