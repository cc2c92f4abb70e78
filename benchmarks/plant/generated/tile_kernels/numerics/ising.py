# ruff: noqa: ANN001, ANN201, D103
"""Spins of one colour of a chessboard, which turn by chance and by their neighbours."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ising(Spin, Chance):
    H, W = T.const("H, W")
    Spin: T.Tensor((H, W), T.int8)
    Chance: T.Tensor((H, W), T.int32)
    Out = T.empty((H, W), T.int8)
    rows, columns = 4, 256
    two, four = 10825, 1788

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            if y < H and x < W:
                own = T.cast(Spin[y, x], T.int32)
                around = T.cast(Spin[(y + 1) % H, x], T.int32)
                around = around + T.cast(Spin[(y + H - 1) % H, x], T.int32)
                around = around + T.cast(Spin[y, (x + 1) % W], T.int32)
                around = around + T.cast(Spin[y, (x + W - 1) % W], T.int32)
                cost = own * around
                limit = T.if_then_else(cost <= 0, 65536, T.if_then_else(cost == 2, two, four))
                turns = (x + y) % 2 == 0 and Chance[y, x] < limit
                Out[y, x] = T.if_then_else(turns, 0 - own, own)
    return Out
