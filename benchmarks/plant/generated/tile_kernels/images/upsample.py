# ruff: noqa: ANN001, ANN201, D103
"""Images twice as high and wide, by the four pixels around each point."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def upsample(X):
    batch, high, wide, C = T.const("batch, high, wide, C")
    X: T.Tensor((batch, high, wide, C), T.bfloat16)
    Y = T.empty((batch, 2 * high, 2 * wide, C), T.bfloat16)
    pixels, channels = 8, 256

    with T.Kernel(
        T.ceildiv(C, channels), T.ceildiv(2 * wide, pixels), 2 * high * batch, threads=256
    ) as (bx, by, line):
        b, y = line // (2 * high), line % (2 * high)
        above, below = T.max((y + 1) // 2 - 1, 0), T.min((y + 1) // 2, high - 1)
        lower = 0.75 - T.cast(y % 2, T.float32) * 0.5
        for i, j in T.Parallel(pixels, channels):
            x, c = by * pixels + i, bx * channels + j
            left, right = T.max((x + 1) // 2 - 1, 0), T.min((x + 1) // 2, wide - 1)
            far = 0.75 - T.cast(x % 2, T.float32) * 0.5
            one = T.cast(X[b, above, left, c], T.float32) * (1.0 - far)
            one = one + T.cast(X[b, above, right, c], T.float32) * far
            two = T.cast(X[b, below, left, c], T.float32) * (1.0 - far)
            two = two + T.cast(X[b, below, right, c], T.float32) * far
            Y[b, y, x, c] = one * (1.0 - lower) + two * lower
    return Y
