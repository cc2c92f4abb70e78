# ruff: noqa: ANN001, ANN201, D103
"""An image smoothed by five by five pixels, those of another brightness less so."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def bilateral(X):
    H, W = T.const("H, W")
    X: T.Tensor((H, W), T.float32)
    Y = T.empty((H - 4, W - 4), T.float32)
    rows, columns = 8, 128

    with T.Kernel(T.ceildiv(W - 4, columns), T.ceildiv(H - 4, rows), threads=256) as (bx, by):
        tile = T.alloc_shared((rows + 4, columns + 4), T.float32)

        for i, j in T.Parallel(rows + 4, columns + 4):
            tile[i, j] = X[by * rows + i, bx * columns + j]
        for i, j in T.Parallel(rows, columns):
            total, weights = 0.0, 0.0
            for tap in list(range(25)):
                far = (tap // 5 - 2) ** 2 + (tap % 5 - 2) ** 2
                other = tile[i + tap // 5, j + tap % 5]
                apart = other - tile[i + 2, j + 2]
                weight = T.__exp2(apart * apart * -4.0 - far * 0.2)
                total = total + other * weight
                weights = weights + weight
            Y[by * rows + i, bx * columns + j] = total / weights
    return Y
