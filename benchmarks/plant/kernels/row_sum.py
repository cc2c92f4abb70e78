# ruff: noqa: ANN001, ANN201, D103
"""Sums of rows."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def row_sum(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    rows, columns = 32, 128

    with T.Kernel(T.ceildiv(M, rows), threads=256) as bx:
        tile = T.alloc_shared((rows, columns), T.float32)
        held = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(total)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=3):
            T.copy(X[bx * rows, k * columns], tile)
            T.copy(tile, held)
            T.reduce_sum(held, total, dim=1, clear=False)
        T.copy(total, S[bx * rows])
    return S
