# ruff: noqa: ANN001, ANN201, D103
"""Images cut into windows of eight by eight pixels, moved by half a window before."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def shift_windows(X):
    batch, side, C = T.const("batch, side, C")
    X: T.Tensor((batch, side, side, C), T.float16)
    Y = T.empty((batch, side // 8, side // 8, 64, C), T.float16)
    pixels, channels = 8, 128

    with T.Kernel(T.ceildiv(C, channels), side * side // 64 * 8, batch, threads=128) as (bx, by, b):
        window, line = by // 8, by % 8
        down, across = window // (side // 8), window % (side // 8)
        for i, j in T.Parallel(pixels, channels):
            y, x = (down * 8 + line + 4) % side, (across * 8 + i + 4) % side
            Y[b, down, across, line * 8 + i, bx * channels + j] = X[b, y, x, bx * channels + j]
    return Y
