# ruff: noqa: ANN001, ANN201, D103
"""Pictures without noise: means over a window of pixels whose surroundings look alike."""

import tileprof
import tileprof.lang as T

SEARCH = 3
PATCH = 1


@tileprof.jit
def nonlocal_means(Picture):
    H, W = T.const("H, W")
    Picture: T.Tensor((H, W), T.float32)
    Out = T.empty((H, W), T.float32)
    rows, columns = 16, 32
    halo = SEARCH + PATCH
    strength = 0.25

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        tile = T.alloc_shared((rows + 2 * halo, columns + 2 * halo), T.float32)
        total = T.alloc_fragment((rows, columns), T.float32)
        weight = T.alloc_fragment((rows, columns), T.float32)

        for i, j in T.Parallel(rows + 2 * halo, columns + 2 * halo):
            y = T.clamp(by * rows + i - halo, 0, H - 1)
            tile[i, j] = Picture[y, T.clamp(bx * columns + j - halo, 0, W - 1)]
        T.clear(total)
        T.clear(weight)
        for dy in T.serial(2 * SEARCH + 1):
            for dx in T.serial(2 * SEARCH + 1):
                for i, j in T.Parallel(rows, columns):
                    apart = 0.0
                    for p in T.unroll(3):
                        for q in T.unroll(3):
                            own = tile[i + SEARCH + p, j + SEARCH + q]
                            off = own - tile[i + dy + p, j + dx + q]
                            apart = apart + off * off
                    w = T.exp(apart * -strength)
                    total[i, j] += w * tile[i + dy + PATCH, j + dx + PATCH]
                    weight[i, j] += w
        for i, j in T.Parallel(rows, columns):
            Out[by * rows + i, bx * columns + j] = total[i, j] / weight[i, j]
    return Out
