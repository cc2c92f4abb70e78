# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels whose blocks are run on the emulated GPU."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def product(A, B):
    """C = A B in tiles, with loads that run ahead."""
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
        A_shared = T.alloc_shared((64, 64), T.bfloat16)
        B_shared = T.alloc_shared((64, 64), T.bfloat16)
        C_local = T.alloc_fragment((64, 64), T.float32)
        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
            T.copy(A[by * 64, k * 64], A_shared)
            T.copy(B[k * 64, bx * 64], B_shared)
            T.gemm(A_shared, B_shared, C_local)
        T.copy(C_local, C[by * 64, bx * 64])
    return C


@tileprof.jit
def doubled(A):
    """Each thread has elements of its own."""
    A: T.Tensor((64,), T.float32)
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(32):
            A[bx * 32 + i] = A[bx * 32 + i] * 2.0


@tileprof.jit
def large(A):
    """Too much shared memory for some GPUs."""
    A: T.Tensor((128, 512), T.float32)
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((128, 512), T.float32)
        T.copy(A, tile)
        T.copy(tile, A)
