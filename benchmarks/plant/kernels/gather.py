# ruff: noqa: ANN001, ANN201, D103
"""Rows of a table by an index, scaled."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def gather(Table, Index, Scale):
    V, N, M = T.const("V, N, M")
    Table: T.Tensor((V, N), T.bfloat16)
    Index: T.Tensor((M,), T.int32)
    Scale: T.Tensor((M,), T.float32)
    Out = T.empty((M, N), T.bfloat16)
    rows, columns = 8, 512

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row = by * rows + i
            value = T.cast(Table[Index[row], bx * columns + j], T.float32)
            Out[row, bx * columns + j] = value * Scale[row]
    return Out
