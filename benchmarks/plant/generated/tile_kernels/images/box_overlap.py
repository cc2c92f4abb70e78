# ruff: noqa: ANN001, ANN201, D103
"""Shares of their union that boxes of two lists have in common, all pairs."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def box_overlap(A, B):
    M, N = T.const("M, N")
    A: T.Tensor((4, M), T.float32)
    B: T.Tensor((4, N), T.float32)
    Out = T.empty((M, N), T.float32)
    rows, columns = 8, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        one = T.alloc_fragment((4, rows), T.float32)
        two = T.alloc_fragment((4, columns), T.float32)
        first = T.alloc_fragment((rows,), T.float32)
        second = T.alloc_fragment((columns,), T.float32)

        T.copy(A[0, by * rows], one)
        T.copy(B[0, bx * columns], two)
        for i in T.Parallel(rows):
            first[i] = (one[2, i] - one[0, i]) * (one[3, i] - one[1, i]) + 1e-6
        for j in T.Parallel(columns):
            second[j] = (two[2, j] - two[0, j]) * (two[3, j] - two[1, j])
        for i, j in T.Parallel(rows, columns):
            wide = T.min(one[2, i], two[2, j]) - T.max(one[0, i], two[0, j])
            high = T.min(one[3, i], two[3, j]) - T.max(one[1, i], two[1, j])
            common = T.max(wide, 0.0) * T.max(high, 0.0)
            Out[by * rows + i, bx * columns + j] = common / (first[i] + second[j] - common)
    return Out
