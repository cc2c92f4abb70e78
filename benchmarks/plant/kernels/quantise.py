# ruff: noqa: ANN001, ANN201, D103
"""Tokens as integers of eight bits, each by its largest element; lanes side by side on a row."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def quantise(X, Scale):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Scale: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.int8)
    rows, lanes = 4, 64

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        tile = T.alloc_shared((rows, N), T.bfloat16)
        tops = T.alloc_fragment((rows, lanes), T.float32)
        top = T.alloc_fragment((rows,), T.float32)

        T.copy(X[block * rows, 0], tile)
        T.clear(tops)
        for j in T.serial(N // lanes):
            for i, lane in T.Parallel(rows, lanes):
                here = T.cast(tile[i, j * lanes + lane], T.float32)
                tops[i, lane] = T.max(tops[i, lane], T.abs(here))
        T.reduce_max(tops, top, dim=1)
        for i in T.Parallel(rows):
            Scale[block * rows + i] = top[i] / 127.0
            top[i] = 127.0 / top[i]
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = T.nearbyint(T.cast(tile[i, j], T.float32) * top[i])
    return Y
