# ruff: noqa: ANN001, ANN201, D103
"""Colours of a sensor whose points see red, green or blue: the others from their neighbours."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def demosaic(Raw):
    H, W = T.const("H, W")
    Raw: T.Tensor((H, W), T.float16)
    Out = T.empty((3, H, W), T.float16)
    rows, columns = 8, 256

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        raw = T.alloc_shared((rows + 2, columns + 2), T.float32)

        for i, j in T.Parallel(rows + 2, columns + 2):
            y = T.clamp(by * rows + i - 1, 0, H - 1)
            x = T.clamp(bx * columns + j - 1, 0, W - 1)
            raw[i, j] = T.cast(Raw[y, x], T.float32)
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            if y < H and x < W:
                own = raw[i + 1, j + 1]
                along = (raw[i + 1, j] + raw[i + 1, j + 2]) * 0.5
                up = (raw[i, j + 1] + raw[i + 2, j + 1]) * 0.5
                corners = raw[i, j] + raw[i, j + 2] + raw[i + 2, j] + raw[i + 2, j + 2]
                odd_row, odd_column = y % 2 == 1, x % 2 == 1
                even_red = T.if_then_else(odd_column, along, own)
                odd_red = T.if_then_else(odd_column, corners * 0.25, up)
                even_blue = T.if_then_else(odd_column, up, corners * 0.25)
                odd_blue = T.if_then_else(odd_column, own, along)
                green = (y + x) % 2 == 1
                Out[0, y, x] = T.if_then_else(odd_row, odd_red, even_red)
                Out[1, y, x] = T.if_then_else(green, own, (along + up) * 0.5)
                Out[2, y, x] = T.if_then_else(odd_row, odd_blue, even_blue)
    return Out
