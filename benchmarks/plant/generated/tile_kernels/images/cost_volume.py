# ruff: noqa: ANN001, ANN201, D103
"""How well each pixel of one image fits 64 pixels to its left in the other, for stereo depth."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cost_volume(Left, Right):
    lines, C, wide, padded = T.const("lines, C, wide, padded")
    Left: T.Tensor((lines, C, wide), T.float32)
    Right: T.Tensor((lines, C, padded), T.float32)
    Out = T.empty((lines, 64, wide), T.float32)
    shifts, pixels, depth = 64, 128, 16

    with T.Kernel(T.ceildiv(wide, pixels), lines, threads=256) as (bx, line):
        one = T.alloc_shared((depth, pixels), T.float32)
        other = T.alloc_shared((depth, pixels + 64), T.float32)
        sums = T.alloc_fragment((shifts, pixels), T.float32)

        first = bx * pixels
        T.clear(sums)
        for k in T.Pipelined(C // depth, num_stages=2):
            T.copy(Left[line, k * depth : (k + 1) * depth, first : first + pixels], one)
            T.copy(Right[line, k * depth : (k + 1) * depth, first : first + pixels + 64], other)
            for c in T.serial(depth):
                for d, x in T.Parallel(shifts, pixels):
                    sums[d, x] += one[c, x] * other[c, x + 64 - d]
        T.copy(sums, Out[line, :, first : first + pixels])
    return Out
