# ruff: noqa: ANN001, ANN201, D103
"""Pictures of a high range for a screen: brightness by a curve, then a gamma, in bytes."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def tone_map(X):
    N = T.const("N")
    X: T.Tensor((3, N), T.float16)
    Out = T.empty((3, N), T.uint8)
    pixels = 2048

    with T.Kernel(T.ceildiv(N, pixels), threads=256) as block:
        colour = T.alloc_fragment((3, pixels), T.float32)
        scale = T.alloc_fragment((pixels,), T.float32)

        T.copy(X[0:3, block * pixels : (block + 1) * pixels], colour)
        for i in T.Parallel(pixels):
            bright = 0.2126 * colour[0, i] + 0.7152 * colour[1, i] + 0.0722 * colour[2, i]
            scale[i] = (1.0 + bright * 0.0625) / (1.0 + bright)
        for c, i in T.Parallel(3, pixels):
            light = T.min(colour[c, i] * scale[i], 1.0) + 1e-6
            colour[c, i] = T.floor(T.__exp2(T.__log2(light) / 2.2) * 255.0 + 0.5)
        T.copy(colour, Out[0:3, block * pixels : (block + 1) * pixels])
    return Out
