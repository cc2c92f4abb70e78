# ruff: noqa: ANN001, ANN201, D103
"""The gradient of a layer norm's input, added to the one that comes around it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def norm_backward(X, Grad, Around, W, Mean, Rstd):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Grad: T.Tensor((M, N), T.bfloat16)
    Around: T.Tensor((M, N), T.bfloat16)
    W: T.Tensor((N,), T.float32)
    Mean: T.Tensor((M,), T.float32)
    Rstd: T.Tensor((M,), T.float32)
    Out = T.empty((M, N), T.bfloat16)
    rows = 2

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        plain = T.alloc_fragment((rows, N), T.float32)
        scaled = T.alloc_fragment((rows, N), T.float32)
        both = T.alloc_fragment((rows, N), T.float32)
        first = T.alloc_fragment((rows,), T.float32)
        second = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, N):
            row = block * rows + i
            plain[i, j] = (T.cast(X[row, j], T.float32) - Mean[row]) * Rstd[row]
            scaled[i, j] = T.cast(Grad[row, j], T.float32) * W[j]
            both[i, j] = plain[i, j] * scaled[i, j]
        T.reduce_sum(scaled, first, dim=1)
        T.reduce_sum(both, second, dim=1)
        for i, j in T.Parallel(rows, N):
            row = block * rows + i
            apart = scaled[i, j] - (first[i] + plain[i, j] * second[i]) / N
            Out[row, j] = apart * Rstd[row] + T.cast(Around[row, j], T.float32)
    return Out
