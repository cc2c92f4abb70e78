# ruff: noqa: ANN001, ANN201, D103
"""Deepest falls of prices below their highest so far, of each of many simulated paths."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def drawdowns(Price, rows: int = 16, days: int = 128):
    paths, length = T.const("paths, length")
    Price: T.Tensor((paths, length), T.float32)
    Worst = T.empty((paths,), T.float32)

    with T.Kernel(T.ceildiv(paths, rows), threads=128) as block:
        price = T.alloc_shared((rows, days), T.float32)
        peak = T.alloc_shared((rows, days), T.float32)
        fall = T.alloc_fragment((rows, days), T.float32)
        worst = T.alloc_fragment((rows,), T.float32)
        highest = T.alloc_shared((rows,), T.float32)

        T.clear(worst)
        T.clear(highest)
        for week in T.Pipelined(T.ceildiv(length, days), num_stages=2):
            T.copy(Price[block * rows, week * days], price)
            T.copy(price, peak)
            T.cummax(peak, dim=1)
            for r, c in T.Parallel(rows, days):
                top = T.max(T.max(peak[r, c], highest[r]), 1e-30)
                real = week * days + c < length
                fall[r, c] = T.if_then_else(real, 1.0 - price[r, c] / top, 0.0)
            T.reduce_max(fall, worst, dim=1, clear=False)
            for r in T.Parallel(rows):
                highest[r] = T.max(highest[r], peak[r, days - 1])
        T.copy(worst, Worst[block * rows])
    return Worst
