# ruff: noqa: ANN001, ANN201, D103
"""A transposition through shared memory."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def transpose(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((N, M), T.float32)
    rows, columns = 64, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        T.use_swizzle(16)
        tile = T.alloc_shared((rows, columns), T.float32)
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = X[by * rows + i, bx * columns + j]
        for i, j in T.Parallel(columns, rows):
            Y[bx * columns + i, by * rows + j] = tile[j, i]
    return Y
