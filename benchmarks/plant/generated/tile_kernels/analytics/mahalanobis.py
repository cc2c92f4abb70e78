# ruff: noqa: ANN001, ANN201, D103
"""Squared distances of samples from a normal distribution, by its inverse covariance."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def mahalanobis(X, Mean, Inverse):
    M = T.const("M")
    X: T.Tensor((M, 128), T.bfloat16)
    Mean: T.Tensor((128,), T.float32)
    Inverse: T.Tensor((128, 128), T.bfloat16)
    Out = T.empty((M,), T.float32)
    rows, turns = 64, 8

    with T.Kernel(T.ceildiv(M, rows * turns), threads=128) as block:
        x = T.alloc_shared((rows, 128), T.bfloat16)
        apart = T.alloc_shared((rows, 128), T.bfloat16)
        inverse = T.alloc_shared((128, 128), T.bfloat16)
        made = T.alloc_fragment((rows, 128), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.copy(Inverse, inverse)
        for turn in T.Pipelined(turns, num_stages=2):
            first = (block * turns + turn) * rows
            T.copy(X[first, 0], x)
            for i, j in T.Parallel(rows, 128):
                apart[i, j] = T.cast(x[i, j], T.float32) - Mean[j]
            T.gemm(apart, inverse, made, clear_accum=True)
            for i, j in T.Parallel(rows, 128):
                made[i, j] *= T.cast(apart[i, j], T.float32)
            T.reduce_sum(made, total, dim=1)
            T.copy(total, Out[first])
    return Out
