# ruff: noqa: ANN001, ANN201, D103
"""The gradient of a softmax: Y · (dY - the row's sum of Y · dY)."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def softmax_grad(Y, dY):
    M, N = T.const("M, N")
    Y: T.Tensor((M, N), T.bfloat16)
    dY: T.Tensor((M, N), T.bfloat16)
    dX = T.empty((M, N), T.bfloat16)
    rows, lanes = 4, 64

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        y = T.alloc_shared((rows, N), T.bfloat16)
        d = T.alloc_shared((rows, N), T.bfloat16)
        dots = T.alloc_fragment((rows, lanes), T.float32)
        dot = T.alloc_fragment((rows,), T.float32)

        T.copy(Y[block * rows, 0], y)
        T.copy(dY[block * rows, 0], d)
        T.clear(dots)
        for j in T.serial(N // lanes):
            for i, lane in T.Parallel(rows, lanes):
                here = T.cast(y[i, j * lanes + lane], T.float32)
                dots[i, lane] += here * T.cast(d[i, j * lanes + lane], T.float32)
        T.reduce_sum(dots, dot, dim=1)
        for i, j in T.Parallel(rows, N):
            step = T.cast(d[i, j], T.float32) - dot[i]
            dX[block * rows + i, j] = T.cast(y[i, j], T.float32) * step
    return dX
