# ruff: noqa: ANN001, ANN201, D103
"""Softmax of rows that fit nowhere: one pass for the sum, one for the result."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def online_softmax(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    rows, columns = 4, 2048

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        tile = T.alloc_fragment((rows, columns), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.fill(top, -T.infinity(T.float32))
        T.clear(total)
        for k in T.serial(N // columns):
            T.copy(X[block * rows, k * columns], tile)
            T.copy(top, before)
            T.reduce_max(tile, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, columns):
                tile[i, j] = T.exp2((tile[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(tile, part, dim=1)
            for i in T.Parallel(rows):
                total[i] = total[i] * T.exp2((before[i] - top[i]) * 1.44269504) + part[i]
        for k in T.serial(N // columns):
            T.copy(X[block * rows, k * columns], tile)
            for i, j in T.Parallel(rows, columns):
                tile[i, j] = T.exp2((tile[i, j] - top[i]) * 1.44269504) / total[i]
            T.copy(tile, Y[block * rows, k * columns])
    return Y
