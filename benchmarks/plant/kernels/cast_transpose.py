# ruff: noqa: ANN001, ANN201, D103
"""Weights rounded to 16 bits and transposed, as the backward pass wants them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cast_transpose(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((N, M), T.bfloat16)
    rows, columns = 64, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        T.use_swizzle(16)
        tile = T.alloc_shared((rows, columns), T.float32)
        for i, j in T.Parallel(rows, columns):
            tile[i, j] = X[by * rows + i, bx * columns + j]
        for i, j in T.Parallel(columns, rows):
            Y[bx * columns + i, by * rows + j] = tile[j, i]
    return Y
