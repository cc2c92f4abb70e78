# ruff: noqa: ANN001, ANN201, D103
"""Sums of columns and of their squares; blocks add up what they have."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def moments(X, S):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S: T.Tensor((2, N), T.float32)
    rows, columns, turns = 4, 1024, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows * turns), threads=256) as (bx, by):
        part = T.alloc_fragment((rows, columns), T.float32)
        held = T.alloc_fragment((rows, columns), T.float32)
        squares = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)
        square = T.alloc_fragment((columns,), T.float32)
        totals = T.alloc_shared((2, columns), T.float32)

        T.clear(held)
        T.clear(squares)
        for turn in T.serial(turns):
            T.copy(X[(by * turns + turn) * rows, bx * columns], part)
            for i, j in T.Parallel(rows, columns):
                held[i, j] += part[i, j]
                squares[i, j] += part[i, j] * part[i, j]
        T.reduce_sum(held, total, dim=0)
        T.reduce_sum(squares, square, dim=0)
        T.copy(total, totals[0, 0:columns])
        T.copy(square, totals[1, 0:columns])
        for i, j in T.Parallel(2, columns, coalesced_width=1):
            T.atomic_add(S[i, bx * columns + j], totals[i, j])
