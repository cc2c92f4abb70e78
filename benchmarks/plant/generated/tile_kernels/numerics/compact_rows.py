# ruff: noqa: ANN001, ANN201, D103
"""Rows whose positive numbers are moved to the front, in their order; behind them is nothing."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def compact_rows(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    rows = 4

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        x = T.alloc_shared((rows, N), T.float32)
        before = T.alloc_shared((rows, N), T.int32)

        T.copy(X[block * rows : (block + 1) * rows, :], x)
        for i, j in T.Parallel(rows, N):
            before[i, j] = T.if_then_else(x[i, j] > 0.0, 1, 0)
        T.cumsum(before, dim=1)
        for i, j in T.Parallel(rows, N):
            kept = x[i, j] > 0.0
            rest = before[i, N - 1] + j - before[i, j]
            place = T.if_then_else(kept, before[i, j] - 1, rest)
            Y[block * rows + i, place] = T.if_then_else(kept, x[i, j], 0.0)
    return Y
