# ruff: noqa: ANN001, ANN201, D103
"""One level of Haar's wavelets of an image: its mean and three differences of each two by two."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def haar(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((4, M // 2, N // 2), T.float32)
    rows, columns = 8, 128

    with T.Kernel(T.ceildiv(N // 2, columns), T.ceildiv(M // 2, rows), threads=256) as (bx, by):
        tile = T.alloc_shared((2 * rows, 2 * columns), T.float32)

        T.copy(X[by * 2 * rows, bx * 2 * columns], tile)
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            a, b = tile[2 * i, 2 * j], tile[2 * i, 2 * j + 1]
            c, d = tile[2 * i + 1, 2 * j], tile[2 * i + 1, 2 * j + 1]
            Y[0, y, x] = (a + b + c + d) * 0.5
            Y[1, y, x] = (a - b + c - d) * 0.5
            Y[2, y, x] = (a + b - c - d) * 0.5
            Y[3, y, x] = (a - b - c + d) * 0.5
    return Y
