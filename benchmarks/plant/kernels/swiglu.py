# ruff: noqa: ANN001, ANN201, D103
"""The gate of a feed-forward layer: silu of a row's first half, by its second half."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def swiglu(X):
    M, both = T.const("M, both")
    X: T.Tensor((M, both), T.bfloat16)
    N = both // 2
    Y = T.empty((M, N), T.bfloat16)
    rows, columns = 4, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            gate = T.cast(X[row, column], T.float32)
            step = 1.0 + T.__exp2(gate * -1.44269504)
            Y[row, column] = gate / step * T.cast(X[row, N + column], T.float32)
    return Y
