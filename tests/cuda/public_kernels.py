# mypy: ignore-errors
# ruff: noqa: ANN202
"""Kernels that are compiled as their authors would, for targets that need not be there."""

from typing import Any

import tileprof.lang as T


def product(
    stages: int = 2,
    threads: int = 128,
    tile: tuple[int, int, int] = (128, 128, 64),
    grid: tuple[int, int] | None = None,
    extents: tuple[int, int, int] = (512, 512, 512),
    told: str = "",
) -> Any:
    """A matrix product with what a test makes wrong; `told`: whether its blocks say something."""
    M, N, K = extents
    rows, columns, depth = tile
    grid = grid or (N // columns, M // rows)

    @T.prim_func
    def matmul(
        A: T.Tensor((M, K), T.float16),
        B: T.Tensor((K, N), T.float16),
        C: T.Tensor((M, N), T.float16),
    ):
        with T.Kernel(*grid, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((rows, depth), T.float16)
            B_shared = T.alloc_shared((depth, columns), T.float16)
            C_local = T.alloc_fragment((rows, columns), T.float32)
            T.clear(C_local)
            if told == "print":
                T.print(bx * 100 + by, "tile")
            if told == "assert":
                T.device_assert(bx < 1, "too far")
            for k in T.Pipelined(K // depth, num_stages=stages):
                T.copy(A[by * rows, k * depth], A_shared)
                T.copy(B[k * depth, bx * columns], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * rows, bx * columns])

    return matmul


def scaled() -> Any:
    """A product of a tile that is scaled on its way to shared memory: nothing is asynchronous."""

    @T.prim_func
    def sums(
        A: T.Tensor((32, 128), T.float16),
        B: T.Tensor((512, 128), T.float16),
        C: T.Tensor((32, 32), T.float32),
    ):
        with T.Kernel(1, threads=128):
            A_shared = T.alloc_shared((32, 128), T.float16)
            B_shared = T.alloc_shared((32, 128), T.float16)
            C_local = T.alloc_fragment((32, 32), T.float32)
            T.clear(C_local)
            T.copy(A[0, 0], A_shared)
            for k in T.serial(16):
                for i, j in T.Parallel(32, 128):
                    B_shared[i, j] = B[k * 32 + i, j] * 2
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[0, 0])

    return sums


def wished(**wish: Any) -> Any:
    """A matrix product whose load of B has a wish."""

    @T.prim_func
    def matmul(
        A: T.Tensor((256, 256), T.float16),
        B: T.Tensor((256, 256), T.float16),
        C: T.Tensor((256, 256), T.float16),
    ):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            A_shared = T.alloc_shared((128, 64), T.float16)
            B_shared = T.alloc_shared((64, 128), T.float16)
            C_local = T.alloc_fragment((128, 128), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[by * 128, k * 64], A_shared)
                T.copy(B[k * 64, bx * 128], B_shared, **wish)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * 128, bx * 128])

    return matmul


def left_early() -> Any:
    """A loop that loads tiles and may end before its last turn."""

    @T.prim_func
    def sums(A: T.Tensor((64, 1024), T.float32), Y: T.Tensor((64,), T.float32)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), T.float32)
            total = T.alloc_fragment((64,), T.float32)
            T.clear(total)
            for k in T.Pipelined(16, num_stages=2):
                T.copy(A[0, k * 64], tile)
                T.reduce_sum(tile, total, dim=1, clear=False)
                if Y[k] > 1.0:
                    break
            T.copy(total, Y)

    return sums


def numbers_of_blocks(columns: int, rows: int) -> Any:
    """Each block writes its number; only the last row of blocks is looked at."""

    @T.prim_func
    def numbers(Y: T.Tensor((columns,), T.int32)):
        with T.Kernel(columns, rows, threads=32) as (bx, by):
            if by == rows - 1:
                for i in T.Parallel(1):
                    Y[bx + i] = bx + by

    return numbers
