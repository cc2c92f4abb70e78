# ruff: noqa: ANN001, ANN201, D103
"""Gradients of logits under cross entropy, from the logarithm of each row's sum."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def loss_backward(Logits, Target, Sum, Grad):
    M, V = T.const("M, V")
    Logits: T.Tensor((M, V), T.bfloat16)
    Target: T.Tensor((M,), T.int32)
    Sum: T.Tensor((M,), T.float32)
    Grad: T.Tensor((M,), T.float32)
    Out = T.empty((M, V), T.bfloat16)
    rows, columns = 2, 2048

    with T.Kernel(T.ceildiv(V, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            logit = T.cast(Logits[row, column], T.float32)
            chance = T.__exp2((logit - Sum[row]) * 1.44269504)
            hit = T.if_then_else(Target[row] == column, 1.0, 0.0)
            Out[row, column] = (chance - hit) * Grad[row]
    return Out
