# ruff: noqa: ANN001, ANN201, D103
"""Factors of many small symmetric matrices by Cholesky, a matrix of 32 by 32 in each block."""

import tileprof
import tileprof.lang as T

SIDE = 32


@tileprof.jit
def small_cholesky(A):
    count = T.const("count")
    A: T.Tensor((count, SIDE, SIDE), T.float32)
    L = T.empty((count, SIDE, SIDE), T.float32)

    with T.Kernel(count, threads=128) as m:
        a = T.alloc_shared((SIDE, SIDE), T.float32)
        column = T.alloc_shared((SIDE,), T.float32)

        T.copy(A[m, 0:SIDE, 0:SIDE], a)
        for k in T.serial(SIDE):
            for i in T.Parallel(SIDE):
                column[i] = T.if_then_else(i >= k, a[i, k] * T.rsqrt(a[k, k]), 0.0)
            for i, j in T.Parallel(SIDE, SIDE):
                rest = a[i, j] - column[i] * column[j]
                a[i, j] = T.if_then_else(j == k, column[i], T.if_then_else(j > k, rest, a[i, j]))
        T.copy(a, L[m, 0:SIDE, 0:SIDE])
    return L
