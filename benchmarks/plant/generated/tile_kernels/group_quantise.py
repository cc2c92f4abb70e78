# ruff: noqa: ANN001, ANN201, D103
"""Numbers of eight bits by the greatest of each group of 128, as products of few bits want them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def group_quantise(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Y = T.empty((M, N), T.float32)
    rows, width = 32, 128

    with T.Kernel(T.ceildiv(N, width), T.ceildiv(M, rows), threads=128) as (bx, by):
        held = T.alloc_fragment((rows, width), T.float32)
        size = T.alloc_fragment((rows, width), T.float32)
        top = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, width):
            held[i, j] = T.cast(X[by * rows + i, bx * width + j], T.float32)
        for i, j in T.Parallel(rows, width):
            size[i, j] = T.abs(held[i, j])
        T.reduce_max(size, top, dim=1)
        for i in T.Parallel(rows):
            top[i] = T.max(top[i], 1e-4) / 127.0
        for i, j in T.Parallel(rows, width):
            Y[by * rows + i, bx * width + j] = T.floor(held[i, j] / top[i] + 0.5) * top[i]
    return Y
