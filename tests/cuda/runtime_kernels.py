# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels for the tests of launches."""

import tileprof.lang as T
from tileprof import jit


@jit
def scale(A, C, factor: T.float32, shift: T.int8, block=64):
    """C = A * factor, over blocks of columns and rows."""
    M, N = T.dynamic("M"), T.dynamic("N")
    A: T.Tensor((M, N), T.float16)
    C: T.Tensor((M, N), T.float16)
    with T.Kernel(T.ceildiv(N, block), M, threads=128) as (bx, by):
        for i in T.Parallel(block):
            C[by, bx * block + i] = A[by, bx * block + i] * T.cast(factor, T.float16)
