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
    rows, columns = 16, 256

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            one, two = by * rows + i, bx * columns + j
            wide = T.min(A[2, one], B[2, two]) - T.max(A[0, one], B[0, two])
            high = T.min(A[3, one], B[3, two]) - T.max(A[1, one], B[1, two])
            common = T.max(wide, 0.0) * T.max(high, 0.0)
            first = (A[2, one] - A[0, one]) * (A[3, one] - A[1, one])
            second = (B[2, two] - B[0, two]) * (B[3, two] - B[1, two])
            Out[one, two] = common / (first + second - common + 1e-6)
    return Out
