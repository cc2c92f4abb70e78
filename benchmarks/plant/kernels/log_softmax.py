# ruff: noqa: ANN001, ANN201, D103
"""Logarithms of the softmax of rows, which stay in registers."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def log_softmax(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.float32)
    rows = 1

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        x = T.alloc_fragment((rows, N), T.float32)
        e = T.alloc_fragment((rows, N), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, N):
            x[i, j] = T.cast(X[block * rows + i, j], T.float32)
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(rows, N):
            e[i, j] = T.__exp2((x[i, j] - top[i]) * 1.44269504)
        T.reduce_sum(e, total, dim=1)
        for i in T.Parallel(rows):
            top[i] += T.log(total[i])
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = x[i, j] - top[i]
    return Y
