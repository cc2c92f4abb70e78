# ruff: noqa: ANN001, ANN201, D103
"""Means of the last 64 values of a series, from its running sum."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def moving_average(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    rows = 4

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        sums = T.alloc_shared((rows, N), T.float32)

        T.copy(X[block * rows, 0], sums)
        T.cumsum(sums, dim=1)
        for i, j in T.Parallel(rows, N):
            before = T.if_then_else(j >= 64, sums[i, T.max(j - 64, 0)], 0.0)
            Y[block * rows + i, j] = (sums[i, j] - before) / 64.0
    return Y
