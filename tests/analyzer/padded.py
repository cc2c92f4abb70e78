# mypy: ignore-errors
# ruff: noqa: ANN201, ANN202
"""Tile kernels whose tiles reach beyond their tensors, or seem to."""

from __future__ import annotations

import tileprof.lang as T

__all__ = ["guarded", "product", "windows"]


def product(M: int, N: int, K: int):
    """In tiles of 64 × 64 × 32."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        C: T.Tensor((M, N), T.float32),
    ):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(M, 64), threads=128) as (bx, by):
            A_shared = T.alloc_shared((64, 32), T.float16)
            B_shared = T.alloc_shared((32, 64), T.float16)
            C_local = T.alloc_fragment((64, 64), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=2):
                T.copy(A[by * 64, k * 32], A_shared)
                T.copy(B[k * 32, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 64, bx * 64])

    return main


@T.prim_func
def guarded(X: T.Tensor((1000, 320), T.float32), Y: T.Tensor((1000, 320), T.float32)):
    """By its author."""
    with T.Kernel(125, threads=128) as by:
        for i, j in T.Parallel(8, 512):
            if j < 320:
                Y[by * 8 + i, j] = X[by * 8 + i, j] * 2


@T.prim_func
def windows(X: T.Tensor((64, 96), T.float32), Y: T.Tensor((64, 96), T.float32)):
    """Each element with the one before it, which the first has none of."""
    with T.Kernel(64, threads=96) as row:
        for j in T.Parallel(96):
            Y[row, j] = X[row, j] + X[row, j - 1]
