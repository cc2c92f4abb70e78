# ruff: noqa: ANN001, ANN201, D103
"""Sums of columns; blocks add up what they have."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def column_sum(X, S):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S: T.Tensor((N,), T.float32)
    rows, columns, turns = 8, 512, 32

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows * turns), threads=256) as (bx, by):
        part = T.alloc_fragment((rows, columns), T.float32)
        held = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)

        T.clear(held)
        for turn in T.serial(turns):
            T.copy(X[(by * turns + turn) * rows, bx * columns], part)
            for i, j in T.Parallel(rows, columns):
                held[i, j] += part[i, j]
        T.reduce_sum(held, total, dim=0)
        for j in T.Parallel(columns):
            T.atomic_add(S[bx * columns + j], total[j])
