# ruff: noqa: ANN001, ANN201, D103
"""Cosine transforms of an image's squares of eight by eight, as JPEG has them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def dct_blocks(X, Waves):
    H, W = T.const("H, W")
    X: T.Tensor((H, W), T.float32)
    Waves: T.Tensor((8, 8), T.float32)
    Y = T.empty((H, W), T.float32)
    rows, columns = 16, 128

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        x = T.alloc_shared((rows, columns), T.float32)
        half = T.alloc_shared((rows, columns), T.float32)
        waves = T.alloc_shared((8, 8), T.float32)

        T.copy(Waves, waves)
        T.copy(X[by * rows, bx * columns], x)
        for i, j in T.Parallel(rows, columns):
            total = 0.0
            for k in list(range(8)):
                total = total + x[i, j // 8 * 8 + k] * waves[j % 8, k]
            half[i, j] = total
        for i, j in T.Parallel(rows, columns):
            total = 0.0
            for k in list(range(8)):
                total = total + half[i // 8 * 8 + k, j] * waves[i % 8, k]
            Y[by * rows + i, bx * columns + j] = total
    return Y
