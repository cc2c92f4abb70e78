# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels that are small enough for their lowered form to be read."""

import tileprof.lang as T
from tileprof import jit


@jit
def matmul(A, B):
    """Tiles of 64, three stages."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        a = T.alloc_shared((64, 64), T.bfloat16)
        b = T.alloc_shared((64, 64), T.bfloat16)
        c = T.alloc_fragment((64, 64), T.float32)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
            T.copy(A[by * 64, k * 64], a)
            T.copy(B[bx * 64, k * 64], b)
            T.gemm(a, b, c, transpose_B=True)
        T.copy(c, C[by * 64, bx * 64])
    return C


@jit
def softmax(X):
    """Four rows a block, a warp for each."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, 4), threads=128) as bx:
        x = T.alloc_fragment((4, N), T.float32)
        top = T.alloc_fragment((4,), T.float32)
        total = T.alloc_fragment((4,), T.float32)
        T.copy(X[bx * 4, 0], x)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(4, N):
            x[i, j] = T.exp(x[i, j] - top[i])
        T.reduce_sum(x, total, dim=1)
        for i, j in T.Parallel(4, N):
            x[i, j] = x[i, j] / total[i]
        T.copy(x, Y[bx * 4, 0])
    return Y


@jit
def transpose(X):
    """Tiles of 64 through shared memory."""
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((N, M), T.bfloat16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        tile = T.alloc_shared((64, 64), T.bfloat16)
        T.copy(X[by * 64, bx * 64], tile)
        for i, j in T.Parallel(64, 64):
            Y[bx * 64 + i, by * 64 + j] = tile[j, i]
    return Y


@T.prim_func
def full_memory(X: T.Tensor((4, 58096), T.float32), Y: T.Tensor((4, 58096), T.float32)):
    """Nearly as much shared memory as there is."""
    with T.Kernel(4, threads=256) as row:
        x = T.alloc_shared((58096,), T.float32)
        T.copy(X[row, 0], x)
        for i in T.Parallel(58096):
            Y[row, i] = x[i] * 2.0
