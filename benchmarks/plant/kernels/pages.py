# ruff: noqa: ANN001, ANN201, D103
"""Keys out of a cache in pages, in the order of each sequence's tokens."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def pages(Cache, Pages):
    P, size, N, batch, L = T.const("P, size, N, batch, L")
    Cache: T.Tensor((P, size, N), T.bfloat16)
    Pages: T.Tensor((batch, L), T.int32)
    Out = T.empty((batch, L * size, N), T.bfloat16)
    rows, columns = 8, 512

    with T.Kernel(T.ceildiv(N, columns), L * size // rows, batch, threads=256) as (bx, by, bz):
        for i, j in T.Parallel(rows, columns):
            token, column = by * rows + i, bx * columns + j
            Out[bz, token, column] = Cache[Pages[bz, token // size], token % size, column]
    return Out
