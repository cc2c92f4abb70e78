# ruff: noqa: ANN001, ANN201, D103
"""A sum and a smooth step of each pair of elements."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def elementwise(X, Y):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    Z = T.empty((M, N), T.float32)
    rows, columns = 8, 512

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            x = X[by * rows + i, bx * columns + j]
            y = Y[by * rows + i, bx * columns + j]
            z = (x + y) * 0.7978845608
            Z[by * rows + i, bx * columns + j] = x / (1.0 + T.exp2(z * -1.44269504))
    return Z
