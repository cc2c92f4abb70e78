# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""Small kernels whose accesses the tests know."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def add(A, B):
    """Ten elements in blocks of four."""
    A: T.Tensor((10,), T.float32)
    B: T.Tensor((10,), T.float32)
    C = T.empty((10,), T.float32)
    with T.Kernel(3, threads=32) as bx:
        for i in T.Parallel(4):
            C[bx * 4 + i] = A[bx * 4 + i] + B[bx * 4 + i]
    return C


@tileprof.jit
def masked(A):
    """Odd points of block 1 write."""
    A: T.Tensor((2, 4), T.float32)
    with T.Kernel(2, threads=32) as bx:
        for i in T.Parallel(4):
            if bx == 1 and i % 2 == 1:
                A[bx, i] = 1.0


@tileprof.jit
def early(A):
    """Copies a tile that nobody wrote."""
    A: T.Tensor((4,), T.float32)
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((4,), T.float32)
        T.copy(A, s)
        t = T.alloc_shared((4,), T.float32)
        T.copy(t, A)
