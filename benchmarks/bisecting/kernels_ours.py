"""Kernels of tileprof that regressions are planted in: a product of matrices and a softmax."""

import tileprof
import tileprof.lang as T


@T.macro
def exponentials(row, top, block_M, N):
    for i, j in T.Parallel(block_M, N):
        row[i, j] = T.exp(row[i, j] - top[i])


@tileprof.jit
def gemm(A, B, block_M: int = 128, block_N: int = 128, block_K: int = 64):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_shared = T.alloc_shared((block_K, block_N), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[k * block_K, bx * block_N], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def softmax(X, block_M: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        row = T.alloc_fragment((block_M, N), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], row)
        T.reduce_max(row, top, dim=1)
        exponentials(row, top, block_M, N)
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            row[i, j] = row[i, j] / total[i]
        T.copy(row, Y[bx * block_M, 0])
    return Y
