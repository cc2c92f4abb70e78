# mypy: ignore-errors
# ruff: noqa: ANN201, ANN202
"""Tile kernels with one defect each that the compiler tells of, and some without."""

from pathlib import Path
from typing import Any

import tileprof.lang as T


def line_of(text: str) -> int:
    """The first line of this file that begins so."""
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(at for at, line in enumerate(lines) if line.strip().startswith(text))


def product(
    dtype: str = "bfloat16",
    threads: int = 128,
    rows: int = 64,
    stages: int = 3,
    given: str = "bfloat16",
) -> Any:
    """A product in tiles of 64 columns and 64 of K; operands may come in another type."""

    @T.prim_func
    def main(
        A: T.Tensor((1024, 1024), given),
        B: T.Tensor((1024, 1024), given),
        C: T.Tensor((1024, 1024), T.float32),
    ):
        with T.Kernel(16, T.ceildiv(1024, rows), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((rows, 64), dtype)
            B_shared = T.alloc_shared((64, 64), dtype)
            C_local = T.alloc_fragment((rows, 64), T.float32)
            T.clear(C_local)
            for k in T.Pipelined(16, num_stages=stages):
                T.copy(A[by * rows, k * 64], A_shared)
                T.copy(B[k * 64, bx * 64], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            T.copy(C_local, C[by * rows, bx * 64])

    return main


@T.prim_func
def turned(X: T.Tensor((64, 32, 32), T.float32), Y: T.Tensor((64, 32, 32), T.float32)):
    """Rows and columns of one fragment in one loop."""
    with T.Kernel(1, threads=128):
        f = T.alloc_fragment((32, 32), T.float32)
        g = T.alloc_fragment((32, 32), T.float32)
        for k in T.serial(64):
            T.copy(X[k, 0:32, 0:32], f)
            for i, j in T.Parallel(32, 32):
                g[i, j] = f[i, j] - f[j, i]
            T.copy(g, Y[k, 0:32, 0:32])


@T.prim_func
def counted(X: T.Tensor((8,), T.int32), Y: T.Tensor((8, 64), T.int32)):
    """A fragment that all threads of a row hold, filled by points that run once."""
    with T.Kernel(1, threads=128):
        found = T.alloc_fragment((8,), T.int32)
        for i in T.Parallel(8):
            found[i] = T.atomic_add(X[i], 1, return_prev=True)
        for i, j in T.Parallel(8, 64):
            Y[i, j] = found[i] * 64 + j


@T.prim_func
def searched(
    Table: T.Tensor((4096,), T.float32), Asked: T.Tensor((65536,), T.float32),
    Place: T.Tensor((65536,), T.int32),
):  # fmt: skip
    """Halving: what was read says where to read next."""
    with T.Kernel(64, threads=256) as block:
        low = T.alloc_fragment((1024,), T.int32)
        T.clear(low)
        for level in T.serial(12):
            for i in T.Parallel(1024):
                middle = low[i] + (2048 >> level)
                if Table[middle - 1] < Asked[block * 1024 + i]:
                    low[i] = middle
        T.copy(low, Place[block * 1024])


@T.prim_func
def in_a_ring(X: T.Tensor((4096, 4096), T.int8), Y: T.Tensor((4096, 4096), T.int8)):
    """Neighbours in a row that ends where it begins."""
    with T.Kernel(16, 1024, threads=256) as (bx, by):
        for i, j in T.Parallel(4, 256):
            x = bx * 256 + j
            Y[by * 4 + i, x] = X[by * 4 + i, x] + X[by * 4 + i, (x + 4095) % 4096]


@T.prim_func
def short_rows(X: T.Tensor((4096, 64), T.uint8), Y: T.Tensor((4096,), T.float32)):
    """Two bytes of each row at a time."""
    with T.Kernel(32, threads=128) as block:
        held = T.alloc_shared((128, 2), T.uint8)
        sums = T.alloc_fragment((128,), T.float32)
        T.clear(sums)
        for k in T.Pipelined(32, num_stages=2):
            T.copy(X[block * 128, k * 2], held)
            for i in T.Parallel(128):
                sums[i] += T.cast(held[i, 0], T.float32) * T.cast(held[i, 1], T.float32)
        T.copy(sums, Y[block * 128])


@T.prim_func
def across(X: T.Tensor((4096, 4096), T.float32), Y: T.Tensor((4096, 4096), T.float32)):
    """A transpose by one loop."""
    with T.Kernel(64, 64, threads=256) as (bx, by):
        for i, j in T.Parallel(64, 64):
            Y[by * 64 + i, bx * 64 + j] = X[bx * 64 + j, by * 64 + i]


def rows_of(rows: int) -> Any:
    """A product whose tiles have 16 rows, as many as there are or fewer."""

    @T.prim_func
    def main(
        A: T.Tensor((rows, 1024), T.bfloat16), B: T.Tensor((1024, 1024), T.bfloat16),
        C: T.Tensor((rows, 1024), T.float32),
    ):  # fmt: skip
        with T.Kernel(16, rows // 16, threads=128) as (bx, by):
            a = T.alloc_shared((16, 64), T.bfloat16)
            b = T.alloc_shared((64, 64), T.bfloat16)
            sums = T.alloc_fragment((16, 64), T.float32)
            T.clear(sums)
            for k in T.Pipelined(16, num_stages=2):
                T.copy(A[by * 16, k * 64], a)
                T.copy(B[k * 64, bx * 64], b)
                T.gemm(a, b, sums)
            T.copy(sums, C[by * 16, bx * 64])

    return main
