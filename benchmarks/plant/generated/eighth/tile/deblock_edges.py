# ruff: noqa: ANN001, ANN201, D103
"""A decoded picture whose blocks of 8 pixels had visible borders, which are made smooth."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def deblock_edges(Picture, rows: int = 4, columns: int = 256):
    H, W = T.const("H, W")
    Picture: T.Tensor((H, W), T.uint8)
    Smooth = T.empty((H, W), T.uint8)
    strong, gentle, most = 40, 12, 6

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        for r, c in T.Parallel(rows, columns):
            y, x = by * rows + r, bx * columns + c
            if y < H and x < W:
                border = T.clamp((x + 4) // 8 * 8, 8, W - 8)
                p1, p0 = (T.cast(Picture[y, border - n], T.int32) for n in (2, 1))
                q0, q1 = (T.cast(Picture[y, border + n], T.int32) for n in (0, 1))
                calm = T.abs(p1 - p0) < gentle and T.abs(q1 - q0) < gentle
                step = T.clamp((4 * (q0 - p0) + p1 - q1 + 4) >> 3, -most, most)
                step = T.if_then_else(calm and T.abs(p0 - q0) < strong, step, 0)
                own = T.cast(Picture[y, x], T.int32)
                step = T.if_then_else(x == border, -step, T.if_then_else(x == border - 1, step, 0))
                Smooth[y, x] = T.cast(T.clamp(own + step, 0, 255), T.uint8)
    return Smooth
