# ruff: noqa: ANN001, ANN201, D103
"""Rows without mean and of unit spread, shifted and scaled by what a diffusion step asks for."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def adaln_modulate(X, Shift, Scale, rows: int = 4):
    B, L, N = T.const("B, L, N")
    X: T.Tensor((B, L, N), T.bfloat16)
    Shift: T.Tensor((B, N), T.float32)
    Scale: T.Tensor((B, N), T.float32)
    Y = T.empty((B, L, N), T.bfloat16)

    with T.Kernel(T.ceildiv(L, rows), B, threads=256) as (bl, b):
        x = T.alloc_fragment((rows, N), T.float32)
        square = T.alloc_fragment((rows, N), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)
        spread = T.alloc_fragment((rows,), T.float32)

        T.copy(X[b, bl * rows : (bl + 1) * rows, 0:N], x)
        T.reduce_sum(x, mean, dim=1)
        for i, j in T.Parallel(rows, N):
            x[i, j] -= mean[i] / N
            square[i, j] = x[i, j] * x[i, j]
        T.reduce_sum(square, spread, dim=1)
        for i in T.Parallel(rows):
            spread[i] = T.rsqrt(spread[i] / N + 1e-6)
        for i, j in T.Parallel(rows, N):
            x[i, j] = x[i, j] * spread[i] * (1.0 + Scale[b, j]) + Shift[b, j]
        T.copy(x, Y[b, bl * rows : (bl + 1) * rows, 0:N])
    return Y
