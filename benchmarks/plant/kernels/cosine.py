# ruff: noqa: ANN001, ANN201, D103
"""Cosines of the angles between rows of two matrices."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cosine(X, Y):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    rows, columns = 32, 128

    with T.Kernel(T.ceildiv(M, rows), threads=256) as bx:
        x = T.alloc_shared((rows, columns), T.float32)
        y = T.alloc_shared((rows, columns), T.float32)
        dots = T.alloc_fragment((rows, columns), T.float32)
        first = T.alloc_fragment((rows, columns), T.float32)
        second = T.alloc_fragment((rows, columns), T.float32)
        dot = T.alloc_fragment((rows,), T.float32)
        one = T.alloc_fragment((rows,), T.float32)
        two = T.alloc_fragment((rows,), T.float32)

        T.clear(dots)
        T.clear(first)
        T.clear(second)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=3):
            T.copy(X[bx * rows, k * columns], x)
            T.copy(Y[bx * rows, k * columns], y)
            for i, j in T.Parallel(rows, columns):
                dots[i, j] += x[i, j] * y[i, j]
                first[i, j] += x[i, j] * x[i, j]
                second[i, j] += y[i, j] * y[i, j]
        T.reduce_sum(dots, dot, dim=1)
        T.reduce_sum(first, one, dim=1)
        T.reduce_sum(second, two, dim=1)
        for i in T.Parallel(rows):
            S[bx * rows + i] = dot[i] * T.rsqrt(one[i] * two[i])
    return S
