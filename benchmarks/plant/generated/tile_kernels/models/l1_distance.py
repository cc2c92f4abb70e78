# ruff: noqa: ANN001, ANN201, D103
"""Sums of absolute differences between all columns of two matrices."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def l1_distance(X, Y):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((K, M), T.float32)
    Y: T.Tensor((K, N), T.float32)
    D = T.empty((M, N), T.float32)
    rows, columns, depth = 128, 64, 16

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        one = T.alloc_shared((depth, rows), T.float32)
        other = T.alloc_shared((depth, columns), T.float32)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(X[k * depth, by * rows], one)
            T.copy(Y[k * depth, bx * columns], other)
            for d in T.serial(depth):
                for i, j in T.Parallel(rows, columns):
                    sums[i, j] += T.abs(one[d, i] - other[d, j])
        T.copy(sums, D[by * rows, bx * columns])
    return D
