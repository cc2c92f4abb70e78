# ruff: noqa: ANN001, ANN201, D103
"""How well each pixel of one image fits 64 pixels to its left in the other, for stereo depth."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cost_volume(Left, Right):
    lines, wide, padded, C = T.const("lines, wide, padded, C")
    Left: T.Tensor((lines, wide, C), T.float16)
    Right: T.Tensor((lines, padded, C), T.float16)
    Out = T.empty((lines, 64, wide), T.float32)
    pixels = 64

    with T.Kernel(lines, threads=128) as line:
        one = T.alloc_shared((pixels, C), T.float16)
        other = T.alloc_shared((pixels + 64, C), T.float16)
        held = T.alloc_shared((pixels, pixels + 64), T.float32)
        dots = T.alloc_fragment((pixels, pixels + 64), T.float32)

        for k in T.Pipelined(wide // pixels, num_stages=3):
            T.copy(Left[line, k * pixels : (k + 1) * pixels, :], one)
            T.copy(Right[line, k * pixels : (k + 1) * pixels + 64, :], other)
            T.gemm(one, other, dots, transpose_B=True, clear_accum=True)
            T.copy(dots, held)
            for d, x in T.Parallel(64, pixels):
                Out[line, d, k * pixels + x] = held[x, x + 64 - d]
    return Out
