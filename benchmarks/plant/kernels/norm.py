# ruff: noqa: ANN001, ANN201, D103
"""RMS norm of rows, through shared memory."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def norm(X, W):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N,), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    rows = 4

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        tile = T.alloc_shared((rows, N), T.bfloat16)
        square = T.alloc_fragment((rows, N), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)

        T.copy(X[block * rows, 0], tile)
        for i, j in T.Parallel(rows, N):
            square[i, j] = T.cast(tile[i, j], T.float32) * T.cast(tile[i, j], T.float32)
        T.reduce_sum(square, mean, dim=1)
        for i in T.Parallel(rows):
            mean[i] = T.rsqrt(mean[i] / N + 1e-6)
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = T.cast(tile[i, j], T.float32) * mean[i] * W[j]
    return Y
