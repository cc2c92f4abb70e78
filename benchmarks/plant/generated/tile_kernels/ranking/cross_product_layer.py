# ruff: noqa: ANN001, ANN201, D103
"""A layer that crosses features: a product, times the first layer's features, and what came in."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cross_product_layer(First, X, W, Bias):
    M, N = T.const("M, N")
    First: T.Tensor((M, N), T.bfloat16)
    X: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N, N), T.bfloat16)
    Bias: T.Tensor((N,), T.float32)
    Out = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        x = T.alloc_shared((rows, depth), T.bfloat16)
        w = T.alloc_shared((depth, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(N, depth), num_stages=3):
            T.copy(X[by * rows, k * depth], x)
            T.copy(W[k * depth, bx * columns], w)
            T.gemm(x, w, sums)
        for i, j in T.Parallel(rows, columns):
            y, z = by * rows + i, bx * columns + j
            if y < M and z < N:
                crossed = T.cast(First[y, z], T.float32) * (sums[i, j] + Bias[z])
                Out[y, z] = crossed + T.cast(X[y, z], T.float32)
    return Out
