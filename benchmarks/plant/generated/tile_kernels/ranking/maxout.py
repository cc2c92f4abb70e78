# ruff: noqa: ANN001, ANN201, D103
"""The greater of two linear layers, element by element."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def maxout(X, One, Other, Bias):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.float16)
    One: T.Tensor((K, N), T.float16)
    Other: T.Tensor((K, N), T.float16)
    Bias: T.Tensor((2, N), T.float32)
    Out = T.empty((M, N), T.float16)
    rows, columns, depth = 128, 64, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        x = T.alloc_shared((rows, depth), T.float16)
        one = T.alloc_shared((depth, columns), T.float16)
        other = T.alloc_shared((depth, columns), T.float16)
        sums = T.alloc_fragment((rows, columns), T.float32)
        others = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        T.clear(others)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(X[by * rows, k * depth], x)
            T.copy(One[k * depth, bx * columns], one)
            T.copy(Other[k * depth, bx * columns], other)
            T.gemm(x, one, sums)
            T.gemm(x, other, others)
        for i, j in T.Parallel(rows, columns):
            a, b = sums[i, j] + Bias[0, bx * columns + j], others[i, j] + Bias[1, bx * columns + j]
            sums[i, j] = T.max(a, b)
        T.copy(sums, Out[by * rows, bx * columns])
    return Out
