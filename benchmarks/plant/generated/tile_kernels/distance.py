# ruff: noqa: ANN001, ANN201, D103
"""Squared distances between all rows of two matrices, from their products and squares."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def distance(X, Y, XX, YY):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.float16)
    Y: T.Tensor((N, K), T.float16)
    XX: T.Tensor((M,), T.float32)
    YY: T.Tensor((N,), T.float32)
    D = T.empty((M, N), T.float32)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        T.use_swizzle(8)
        one = T.alloc_shared((rows, depth), T.float16)
        other = T.alloc_shared((columns, depth), T.float16)
        dots = T.alloc_fragment((rows, columns), T.float32)

        T.clear(dots)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(X[by * rows, k * depth], one)
            T.copy(Y[bx * columns, k * depth], other)
            T.gemm(one, other, dots, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            squares = XX[by * rows + i] + YY[bx * columns + j]
            dots[i, j] = T.max(squares - dots[i, j] * 2.0, 0.0)
        T.copy(dots, D[by * rows, bx * columns])
    return D
