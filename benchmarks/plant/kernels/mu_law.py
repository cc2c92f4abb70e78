# ruff: noqa: ANN001, ANN201, D103
"""Numbers of eight bits with logarithmic steps, made bfloat16 and scaled by row."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def mu_law(X, Scale):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.int8)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns = 4, 2048

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            step = T.cast(X[by * rows + i, bx * columns + j], T.float32)
            size = T.__exp2(T.abs(step) * 0.0625) - 1.0
            Y[by * rows + i, bx * columns + j] = T.copysign(size, step) * Scale[by * rows + i]
    return Y
