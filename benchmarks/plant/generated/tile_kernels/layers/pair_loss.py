# ruff: noqa: ANN001, ANN201, D103
"""Losses of pictures against all captions: each pair on its own, right or wrong."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def pair_loss(X, Y):
    M, N, K = T.const("M, N, K")
    X: T.Tensor((M, K), T.bfloat16)
    Y: T.Tensor((N, K), T.bfloat16)
    Loss = T.empty((M,), T.float32)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        one = T.alloc_shared((rows, depth), T.bfloat16)
        other = T.alloc_shared((columns, depth), T.bfloat16)
        dots = T.alloc_fragment((rows, columns), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(total)
        for n in T.serial(N // columns):
            T.clear(dots)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
                T.copy(X[block * rows, k * depth], one)
                T.copy(Y[n * columns, k * depth], other)
                T.gemm(one, other, dots, transpose_B=True)
            for i, j in T.Parallel(rows, columns):
                logit = dots[i, j] * 0.05 - 2.0
                away = T.if_then_else(block * rows + i == n * columns + j, 0.0 - logit, logit)
                tail = T.log(T.__exp2(T.abs(away) * -1.44269504) + 1.0)
                dots[i, j] = T.max(away, 0.0) + tail
            T.reduce_sum(dots, part, dim=1)
            for i in T.Parallel(rows):
                total[i] += part[i]
        T.copy(total, Loss[block * rows])
    return Loss
