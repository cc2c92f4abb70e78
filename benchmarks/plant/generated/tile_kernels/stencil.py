# ruff: noqa: ANN001, ANN201, D103
"""One step of heat in a plane: each point and its four neighbours."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def stencil(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M - 2, N - 2), T.float32)
    rows, columns = 16, 128

    with T.Kernel(T.ceildiv(N - 2, columns), T.ceildiv(M - 2, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            around = X[y, x + 1] + X[y + 2, x + 1] + X[y + 1, x] + X[y + 1, x + 2]
            Y[y, x] = X[y + 1, x + 1] * 0.6 + around * 0.1
    return Y
