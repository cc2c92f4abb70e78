# ruff: noqa: ANN001, ANN201, D103
"""Channels by scale and shift, what went around them added, and what is below 0 cut off."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def norm_add_relu(X, Around, Scale, Shift):
    M, C = T.const("M, C")
    X: T.Tensor((M, C), T.bfloat16)
    Around: T.Tensor((M, C), T.bfloat16)
    Scale: T.Tensor((C,), T.float32)
    Shift: T.Tensor((C,), T.float32)
    Y = T.empty((M, C), T.bfloat16)
    rows, columns = 8, 256

    with T.Kernel(T.ceildiv(C, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        scale = T.alloc_fragment((columns,), T.float32)
        shift = T.alloc_fragment((columns,), T.float32)

        T.copy(Scale[bx * columns], scale)
        T.copy(Shift[bx * columns], shift)
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            made = T.cast(X[row, column], T.float32) * scale[j] + shift[j]
            Y[row, column] = T.max(made + T.cast(Around[row, column], T.float32), 0.0)
    return Y
