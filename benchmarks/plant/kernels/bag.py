# ruff: noqa: ANN001, ANN201, D103
"""Sums of a table's rows: an embedding of several items for each sample."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def bag(Table, Items):
    V, N, M, L = T.const("V, N, M, L")
    Table: T.Tensor((V, N), T.bfloat16)
    Items: T.Tensor((M, L), T.int32)
    Out = T.empty((M, N), T.float32)
    rows, columns = 32, 128

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        total = T.alloc_fragment((rows, columns), T.float32)
        T.clear(total)
        for item in T.serial(L):
            for i, j in T.Parallel(rows, columns):
                row = Items[by * rows + i, item]
                total[i, j] += T.cast(Table[row, bx * columns + j], T.float32)
        T.copy(total, Out[by * rows, bx * columns])
    return Out
