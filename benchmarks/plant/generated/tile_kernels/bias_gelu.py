# ruff: noqa: ANN001, ANN201, D103
"""A bias and GELU, by the hyperbolic tangent."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def bias_gelu(X, Bias):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Bias: T.Tensor((N,), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns = 4, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            x = T.cast(X[row, column], T.float32) + T.cast(Bias[column], T.float32)
            inner = x * (0.7978845608 + x * x * 0.0356774081)
            Y[row, column] = x / (1.0 + T.exp2(inner * -2.88539008))
    return Y
