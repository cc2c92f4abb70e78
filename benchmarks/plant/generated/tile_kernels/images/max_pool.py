# ruff: noqa: ANN001, ANN201, D103
"""The greatest of each three by three pixels, two pixels on."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def max_pool(X):
    batch, high, wide, C = T.const("batch, high, wide, C")
    X: T.Tensor((batch, high, wide, C), T.float16)
    Y = T.empty((batch, (high - 1) // 2, (wide - 1) // 2, C), T.float16)
    pixels, channels = 16, 64
    lines = (high - 1) // 2

    with T.Kernel(
        T.ceildiv(C, channels), T.ceildiv((wide - 1) // 2, pixels), lines * batch, threads=128
    ) as (bx, by, line):
        b, y = line // lines, line % lines
        for i, j in T.Parallel(pixels, channels):
            x, c = by * pixels + i, bx * channels + j
            top = X[b, 2 * y, 2 * x, c]
            for tap in list(range(1, 9)):
                top = T.max(top, X[b, 2 * y + tap // 3, 2 * x + tap % 3, c])
            Y[b, y, x, c] = top
    return Y
