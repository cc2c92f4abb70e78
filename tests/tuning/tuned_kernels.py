"""Kernels that the tests of the tuner tune."""

# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, D103
# A kernel annotates its arguments with tensors, which is not Python's typing.

from __future__ import annotations

import tileprof
import tileprof.lang as T


@tileprof.jit
def product(
    A, B, block_M: int = 128, block_N: int = 256, block_K: int = 64, stages: int = 4,
    threads: int = 256, rows: int = 8, scale: int = 1,
):  # fmt: skip
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        T.use_swizzle(rows)
        A_shared = T.alloc_shared((block_M, block_K), T.bfloat16)
        B_shared = T.alloc_shared((block_N, block_K), T.bfloat16)
        C_local = T.alloc_fragment((block_M, block_N), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
            T.copy(A[by * block_M, k * block_K], A_shared)
            T.copy(B[bx * block_N, k * block_K], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        for i, j in T.Parallel(block_M, block_N):
            C_local[i, j] *= scale
        T.copy(C_local, C[by * block_M, bx * block_N])
    return C


@tileprof.jit
def added(X, Y, block: int = 1024, threads: int = 128, window: int = 4):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    Z = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
        for i in T.Parallel(block):
            Z[bx * block + i] = X[bx * block + i] + Y[bx * block + i] * window
    return Z


@tileprof.jit
def sized(X, length: int = 8, block: int = 32):
    """`length` is a size: the result has it."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N, length), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        for i, j in T.Parallel(block, length):
            Y[bx * block + i, j] = X[bx * block + i]
    return Y


@tileprof.jit
def handed_on(X, block: int = 32):
    """What the first launch passes to the second depends on `block`, the result does not."""
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    total = T.empty((1,), T.float32)
    parts = T.alloc_global((T.ceildiv(N, block),), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=32) as bx:
        tile = T.alloc_fragment((block,), T.float32)
        one = T.alloc_fragment((1,), T.float32)
        T.copy(X[bx * block], tile)
        T.reduce_sum(tile, one, dim=0)
        T.copy(one, parts[bx])
    with T.Kernel(1, threads=32) as _:
        value = T.alloc_var(T.float32, 0.0)
        for k in T.serial(T.ceildiv(N, block)):
            value += parts[k]
        total[0] = value
    return total


@tileprof.jit
def no_choice(X):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 64), threads=64) as bx:
        for i in T.Parallel(64):
            Y[bx * 64 + i] = X[bx * 64 + i]
    return Y


@tileprof.jit
def scalar_sums(X, block: int = 64):
    N = T.const("N")
    X: T.Tensor((N, 4), T.float32)
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            total = 0.0
            for k in T.serial(4):
                total += X[bx * block + i, k]
            Y[bx * block + i] = total
    return Y
