# ruff: noqa: ANN001, ANN201, D103
"""Softmax of rows that stay in registers."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def softmax(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    rows = 1

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        x = T.alloc_fragment((rows, N), T.bfloat16)
        e = T.alloc_fragment((rows, N), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, N):
            x[i, j] = X[block * rows + i, j]
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(rows, N):
            e[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
        T.reduce_sum(e, total, dim=1)
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = e[i, j] / total[i]
    return Y
