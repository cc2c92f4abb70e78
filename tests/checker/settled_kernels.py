# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Kernels whose accesses follow from data."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ragged(A, Offsets):
    """Block b doubles rows Offsets[b] to Offsets[b + 1]."""
    A: T.Tensor((8, 4), T.float32)
    Offsets: T.Tensor((4,), T.int32)
    with T.Kernel(3, threads=32) as bx:
        for row in T.serial(Offsets[bx], T.max(Offsets[bx], Offsets[bx + 1])):
            for j in T.Parallel(4):
                A[row, j] = A[row, j] * 2.0


@tileprof.jit
def by_floats(A, Which):
    """Rows whose number in `Which` is positive are moved to the front: a float says which."""
    A: T.Tensor((8, 4), T.float32)
    Which: T.Tensor((8,), T.float32)
    with T.Kernel(8, threads=32) as bx:
        row = T.if_then_else(Which[bx] > 0, bx, 7 - bx)
        for j in T.Parallel(4):
            A[row, j] = 1.0
