# ruff: noqa: ANN001, ANN201, D103
"""Images of a batch with their channels put last, through a flat piece of shared memory."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def channels_last(X):
    batch, C, P = T.const("batch, C, P")
    X: T.Tensor((batch, C, P), T.float32)
    Y = T.empty((batch, P, C), T.float32)
    rows, columns = 64, 64
    stride = columns + 1

    with T.Kernel(T.ceildiv(C, rows), T.ceildiv(P, columns), batch, threads=256) as (by, bx, bz):
        tile = T.alloc_shared((rows * stride,), T.float32)
        for i, j in T.Parallel(rows, columns):
            tile[i * stride + j] = X[bz, by * rows + i, bx * columns + j]
        for i, j in T.Parallel(columns, rows):
            Y[bz, bx * columns + i, by * rows + j] = tile[j * stride + i]
    return Y
