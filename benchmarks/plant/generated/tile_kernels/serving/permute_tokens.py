# ruff: noqa: ANN001, ANN201, D103
"""Tokens in the order of their experts, each with the share that its expert has of it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def permute_tokens(X, Order, Share):
    tokens, M, N = T.const("tokens, M, N")
    X: T.Tensor((tokens, N), T.bfloat16)
    Order: T.Tensor((M,), T.int32)
    Share: T.Tensor((M,), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    rows, columns = 8, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            place = by * rows + i
            from_ = Order[place]
            if from_ >= 0:
                Y[place, bx * columns + j] = X[from_, bx * columns + j] * Share[place]
            else:
                Y[place, bx * columns + j] = 0
    return Y
