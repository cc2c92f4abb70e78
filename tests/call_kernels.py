# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
"""Kernels of the tests of calls: empty tensors, special values, arguments."""

import numpy as np

import tileprof
import tileprof.lang as T


@tileprof.jit
def extremes(X, Y, dtype: str):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), dtype)
    Y: T.Tensor((M,), dtype)
    out = T.empty((5, M), dtype)
    scan = T.empty((M, N), dtype)
    best = T.empty((2,), dtype)
    with T.Kernel(1, threads=128):
        tile = T.alloc_fragment((M, N), dtype)
        line = T.alloc_shared((M, N), dtype)
        row = T.alloc_fragment((M,), dtype)
        T.copy(X, tile)
        T.copy(X, line)
        T.reduce_max(tile, row, dim=1)
        T.copy(row, out[0, :])
        T.reduce_min(tile, row, dim=1)
        T.copy(row, out[1, :])
        T.reduce_absmax(tile, row, dim=1)
        T.copy(row, out[2, :])
        T.copy(Y, row)
        T.reduce_max(tile, row, dim=1, clear=False)
        T.copy(row, out[3, :])
        T.copy(Y, row)
        T.reduce_min(tile, row, dim=1, clear=False)
        T.copy(row, out[4, :])
        T.cummax(line, dim=1)
        T.copy(line, scan)
        best[0] = X[0, 0]
        best[1] = X[0, 0]
        for i, j in T.Parallel(M, N):
            T.atomic_max(best[0], X[i, j])
            T.atomic_min(best[1], X[i, j])
    return out, scan, best


@tileprof.jit
def matmul(A, B, static: bool):
    if static:
        M, N, K = T.const("M, N, K")
    else:
        M, N, K = T.dynamic("M, N, K")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    C = T.empty((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, 32), T.ceildiv(M, 32), threads=128) as (bx, by):
        left = T.alloc_shared((32, 16), T.float16)
        right = T.alloc_shared((16, 32), T.float16)
        total = T.alloc_fragment((32, 32), T.float32)
        T.clear(total)
        for k in T.Pipelined(T.ceildiv(K, 16), num_stages=2):
            T.copy(A[by * 32, k * 16], left)
            T.copy(B[k * 16, bx * 32], right)
            T.gemm(left, right, total)
        T.copy(total, C[by * 32, bx * 32])
    return C


@tileprof.jit
def twice(A, early: bool = True):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    C = T.empty((M, N), T.float32)
    if early and N == 0:
        return C
    with T.Kernel(M, threads=32) as bx:
        row = T.alloc_shared((N,), T.float32)
        T.copy(A[bx, 0], row)
        for j in T.Parallel(N):
            C[bx, j] = 2 * row[j]
    return C


@tileprof.jit
def add(A, B):
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        for i in T.Parallel(64):
            C[bx * 64 + i] = A[bx * 64 + i] + B[bx * 64 + i]
    return C


@tileprof.jit
def idle(A):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    return T.empty((N,), T.float32)


@tileprof.jit
def scaled(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            Y[i] = np.float32(2) * X[i] - np.int64(1)
    return Y


@tileprof.jit
def increment(A):
    M, N = T.const("M, N")
    A: T.StridedTensor((M, N), (T.dynamic("s"), T.dynamic("t")), T.float32)
    with T.Kernel(M, threads=32) as bx:
        for j in T.Parallel(N):
            A[bx, j] += 1


@tileprof.jit
def blocks(A, block: int):
    N = T.dynamic("N")
    A: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            C[bx * block + i] = A[bx * block + i]
    return C


@tileprof.jit
def added_to_result(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(1, threads=32) as _:
        for i in T.Parallel(N):
            Y[i] = Y[i] + X[i]
    return Y
