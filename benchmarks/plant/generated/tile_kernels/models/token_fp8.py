# ruff: noqa: ANN001, ANN201, D103
"""Numbers of eight bits with a point, by the greatest of each token, and what to scale them by."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def token_fp8(X, Scale):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.float8_e4m3)
    rows = 2

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        held = T.alloc_fragment((rows, N), T.float32)
        top = T.alloc_fragment((rows,), T.float32)

        T.copy(X[block * rows, 0], held)
        T.reduce_absmax(held, top, dim=1)
        for i in T.Parallel(rows):
            top[i] = T.max(top[i], 1e-4) / 448.0
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = held[i, j] / top[i]
        T.copy(top, Scale[block * rows])
    return Y
