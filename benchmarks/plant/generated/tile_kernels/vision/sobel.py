# ruff: noqa: ANN001, ANN201, D103
"""Edges of an image: the length of its slope at each point."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def sobel(X):
    H, W = T.const("H, W")
    X: T.Tensor((H, W), T.uint8)
    Y = T.empty((H - 2, W - 2), T.float16)
    rows, columns = 8, 256

    with T.Kernel(T.ceildiv(W - 2, columns), T.ceildiv(H - 2, rows), threads=256) as (bx, by):
        grey = T.alloc_shared((rows + 2, columns + 4), T.float32)

        for i, j in T.Parallel(rows + 2, columns + 4):
            grey[i, j] = T.cast(X[by * rows + i, bx * columns + j], T.float32)
        for i, j in T.Parallel(rows, columns):
            right = grey[i, j + 2] + 2.0 * grey[i + 1, j + 2] + grey[i + 2, j + 2]
            left = grey[i, j] + 2.0 * grey[i + 1, j] + grey[i + 2, j]
            above = grey[i, j] + 2.0 * grey[i, j + 1] + grey[i, j + 2]
            below = grey[i + 2, j] + 2.0 * grey[i + 2, j + 1] + grey[i + 2, j + 2]
            across, up = right - left, above - below
            Y[by * rows + i, bx * columns + j] = T.sqrt(across * across + up * up)
    return Y
