# mypy: ignore-errors
# ruff: noqa: ANN201, ANN202
"""Tile kernels with one defect each that the compiler tells of, and one without."""

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
