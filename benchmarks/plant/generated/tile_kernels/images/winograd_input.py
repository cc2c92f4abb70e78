# ruff: noqa: ANN001, ANN201, D103
"""Patches of four by four pixels, made ready for products in place of a convolution."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def winograd_input(X):
    batch, high, wide, C = T.const("batch, high, wide, C")
    X: T.Tensor((batch, high, wide, C), T.float16)
    V = T.empty((16, batch, high // 2 - 1, wide // 2 - 1, C), T.float16)
    patches, channels = 4, 128
    lines = high // 2 - 1

    with T.Kernel(
        T.ceildiv(C, channels), T.ceildiv(wide // 2 - 1, patches), lines * batch, threads=128
    ) as (bx, by, line):
        b, y = line // lines, line % lines
        for i, j in T.Parallel(patches, channels):
            x, c = by * patches + i, bx * channels + j
            half = []
            for v in list(range(4)):
                d = [T.cast(X[b, 2 * y + u, 2 * x + v, c], T.float32) for u in list(range(4))]
                half.append([d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]])
            for u in list(range(4)):
                V[u * 4, b, y, x, c] = half[0][u] - half[2][u]
                V[u * 4 + 1, b, y, x, c] = half[1][u] + half[2][u]
                V[u * 4 + 2, b, y, x, c] = half[2][u] - half[1][u]
                V[u * 4 + 3, b, y, x, c] = half[1][u] - half[3][u]
    return V
