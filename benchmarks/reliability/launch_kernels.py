"""Kernels that the campaign of first launches calls."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import tileprof
import tileprof.lang as T


@tileprof.jit
def scale(X, S, block: int = 16):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block), threads=128) as bx, T.scope("scale"):
        for i, j in T.Parallel(block, N):
            Y[bx * block + i, j] = X[bx * block + i, j] * S[bx * block + i]
    return Y


@tileprof.jit
def shift(X, by: T.float32):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
        for i in T.Parallel(32):
            Y[bx * 32 + i] = X[bx * 32 + i] + by
    return Y


@tileprof.jit(debug=True)
def plain(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            Y[i] = X[i] - 1
    return Y


@T.prim_func
def double(A: T.Tensor((256,), T.float32), B: T.Tensor((256,), T.float32)):
    with T.Kernel(8, threads=32) as bx:
        for i in T.Parallel(32):
            B[bx * 32 + i] = A[bx * 32 + i] * 2


@tileprof.jit(out_idx=[-1])
def factory(size: int):
    @T.prim_func
    def main(A: T.Tensor((size,), T.float32), B: T.Tensor((size,), T.float32)) -> None:
        with T.Kernel(T.ceildiv(size, 32), threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i] * 3

    return main
