# ruff: noqa: ANN001, ANN201, D103
"""Images twice as high and wide, from four channels for each one that is left."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def pixel_shuffle(X):
    batch, high, wide, C = T.const("batch, high, wide, C")
    X: T.Tensor((batch, high, wide, C), T.bfloat16)
    Y = T.empty((batch, 2 * high, 2 * wide, C // 4), T.bfloat16)
    pixels, channels = 16, 64

    with T.Kernel(
        T.ceildiv(C // 4, channels), T.ceildiv(2 * wide, pixels), 2 * high * batch, threads=128
    ) as (bx, by, line):
        b, y = line // (2 * high), line % (2 * high)
        for i, j in T.Parallel(pixels, channels):
            x, c = by * pixels + i, bx * channels + j
            Y[b, y, x, c] = X[b, y // 2, x // 2, c * 4 + y % 2 * 2 + x % 2]
    return Y
