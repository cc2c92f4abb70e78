# ruff: noqa: ANN001, ANN201, D103
"""Pictures of clouds of soft spots: each square of pixels has a list of spots, front to back."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def splat_pixels(Spot, List):
    V, tiles, L = T.const("V, tiles, L")
    Spot: T.Tensor((V, 8), T.float32)
    List: T.Tensor((tiles, L), T.int32)
    Out = T.empty((tiles, 3, 256), T.float32)
    pixels, spots = 256, 64

    with T.Kernel(tiles, threads=256) as tile:
        spot = T.alloc_shared((spots, 8), T.float32)
        left = T.alloc_fragment((pixels,), T.float32)
        colour = T.alloc_fragment((3, pixels), T.float32)

        T.fill(left, 1.0)
        T.clear(colour)
        for k in T.serial(L // spots):
            for n, c in T.Parallel(spots, 8):
                spot[n, c] = Spot[List[tile, k * spots + n], c]
            for n in T.serial(spots):
                for i in T.Parallel(pixels):
                    x = T.cast(i % 16, T.float32) - spot[n, 0]
                    y = T.cast(i // 16, T.float32) - spot[n, 1]
                    far = (spot[n, 2] * x * x + spot[n, 3] * y * y) * -0.72134752
                    share = spot[n, 4] * T.__exp2(far)
                    light = left[i] * share
                    colour[0, i] += light * spot[n, 5]
                    colour[1, i] += light * spot[n, 6]
                    colour[2, i] += light * spot[n, 7]
                    left[i] = left[i] - light
        T.copy(colour, Out[tile, 0:3, 0:pixels])
    return Out
