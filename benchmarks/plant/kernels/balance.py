# ruff: noqa: ANN001, ANN201, B007, D103
"""Rows that are balanced by many small steps, then divided by the sums of their sizes."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def balance(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)

    with T.Kernel(M, threads=256) as row:
        x = T.alloc_fragment((1, N), T.float32)
        total = T.alloc_fragment((1,), T.float32)

        T.copy(X[row, 0], x)
        for _ in T.serial(4):
            for turn in T.serial(64):
                for i, j in T.Parallel(1, N):
                    x[i, j] = x[i, j] * (1.0 + (1.0 - x[i, j] * x[i, j]) * 0.002)
        T.reduce_abssum(x, total, dim=1)
        for i, j in T.Parallel(1, N):
            Y[row + i, j] = x[i, j] / total[i]
    return Y
