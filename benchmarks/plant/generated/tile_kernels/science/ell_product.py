# ruff: noqa: ANN001, ANN201, D103
"""A sparse matrix times a vector; each row has as many entries as the longest has."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ell_product(Values, Column, X):
    M, E, V = T.const("M, E, V")
    Values: T.Tensor((M, E), T.float32)
    Column: T.Tensor((M, E), T.int32)
    X: T.Tensor((V,), T.float32)
    Y = T.empty((M,), T.float32)
    rows = 64

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        terms = T.alloc_fragment((rows, E), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, E):
            row = block * rows + i
            terms[i, j] = Values[row, j] * X[Column[row, j]]
        T.reduce_sum(terms, total, dim=1)
        T.copy(total, Y[block * rows])
    return Y
