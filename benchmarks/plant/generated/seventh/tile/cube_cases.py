# ruff: noqa: ANN001, ANN201, D103
"""Triangles of a surface in each cell of a volume: a table of the signs of the cell's corners."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cube_cases(Volume, Table):
    D, H, W = T.const("D, H, W")
    Volume: T.Tensor((D, H, W), T.float32)
    Table: T.Tensor((256,), T.int32)
    Triangles = T.empty((D - 1, H - 1, W - 1), T.int8)
    by, bx = 8, 128
    iso = 0.25

    with T.Kernel(T.ceildiv(W - 1, bx), T.ceildiv(H - 1, by), D - 1, threads=256) as (x0, y0, z):
        table = T.alloc_shared((256,), T.int32)

        T.copy(Table, table)
        for j, i in T.Parallel(by, bx):
            y, x = y0 * by + j, x0 * bx + i
            if y < H - 1 and x < W - 1:
                case = 0
                for corner in T.unroll(8):
                    dz, dy, dx = corner // 4, corner // 2 % 2, corner % 2
                    inside = Volume[z + dz, y + dy, x + dx] > iso
                    case = case + T.if_then_else(inside, 1 << corner, 0)
                Triangles[z, y, x] = T.cast(table[case], T.int8)
    return Triangles
