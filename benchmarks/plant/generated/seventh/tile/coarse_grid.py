# ruff: noqa: ANN001, ANN201, D103
"""A residual on a grid of half as many points along each axis: weights of 27 neighbours."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def coarse_grid(Fine, rows: int = 2, columns: int = 128):
    D, H, W = T.const("D, H, W")
    Fine: T.Tensor((D, H, W), T.float32)
    Coarse = T.empty((D // 2, H // 2, W // 2), T.float32)

    with T.Kernel(T.ceildiv(W // 2, columns), T.ceildiv(H // 2, rows), D // 2, threads=128) as (
        bx,
        by,
        z,
    ):
        total = T.alloc_fragment((rows, columns), T.float32)

        T.clear(total)
        for dz in T.serial(3):
            for dy in T.serial(3):
                side = T.if_then_else(dz == 1, 0.5, 0.25) * T.if_then_else(dy == 1, 0.5, 0.25)
                for j, i in T.Parallel(rows, columns):
                    y, x = by * rows + j, bx * columns + i
                    if y < H // 2 and x < W // 2:
                        zz = T.clamp(2 * z + dz - 1, 0, D - 1)
                        yy = T.clamp(2 * y + dy - 1, 0, H - 1)
                        left = Fine[zz, yy, T.max(2 * x - 1, 0)]
                        right = Fine[zz, yy, 2 * x + 1]
                        total[j, i] += side * (0.25 * (left + right) + 0.5 * Fine[zz, yy, 2 * x])
        for j, i in T.Parallel(rows, columns):
            Coarse[z, by * rows + j, bx * columns + i] = total[j, i]
    return Coarse
