# ruff: noqa: ANN001, ANN201, D103
"""RMS norm of the sum of a row and its residual, in registers."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def add_norm(X, R, W):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    R: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N,), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    rows = 1

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        x = T.alloc_fragment((rows, N), T.float32)
        square = T.alloc_fragment((rows, N), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, N):
            here = T.cast(R[block * rows + i, j], T.float32)
            x[i, j] = T.cast(X[block * rows + i, j], T.float32) + here
        for i, j in T.Parallel(rows, N):
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, mean, dim=1)
        for i in T.Parallel(rows):
            mean[i] = T.rsqrt(mean[i] / N + 1e-6)
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = x[i, j] * mean[i] * T.cast(W[j], T.float32)
    return Y
