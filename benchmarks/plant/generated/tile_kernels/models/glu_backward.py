# ruff: noqa: ANN001, ANN201, D103
"""Gradients of a gated linear unit's two halves: SiLU of the gate times what is let through."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def glu_backward(Gate, Up, Grad):
    M, N = T.const("M, N")
    Gate: T.Tensor((M, N), T.bfloat16)
    Up: T.Tensor((M, N), T.bfloat16)
    Grad: T.Tensor((M, N), T.bfloat16)
    Out = T.empty((2, M, N), T.bfloat16)
    rows, columns = 2, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            gate = T.cast(Gate[row, column], T.float32)
            grad = T.cast(Grad[row, column], T.float32)
            opened = 1.0 / (1.0 + T.__exp2(gate * -1.44269504))
            slope = opened * (1.0 + gate * (1.0 - opened))
            Out[0, row, column] = grad * T.cast(Up[row, column], T.float32) * slope
            Out[1, row, column] = grad * gate * opened
    return Out
