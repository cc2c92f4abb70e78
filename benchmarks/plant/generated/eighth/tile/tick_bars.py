# ruff: noqa: ANN001, ANN201, D103
"""Bars of a market from its trades, 64 to a bar: highest, lowest and mean price, and volume."""

import tileprof
import tileprof.lang as T

TICKS = 64


@tileprof.jit
def tick_bars(Price, Size, bars: int = 64):
    B = T.const("B")
    Price: T.Tensor((B, TICKS), T.float32)
    Size: T.Tensor((B, TICKS), T.float32)
    Bar = T.empty((4, B), T.float32)

    with T.Kernel(T.ceildiv(B, bars), threads=256) as bx:
        price = T.alloc_fragment((bars, TICKS), T.float32)
        size = T.alloc_fragment((bars, TICKS), T.float32)
        high = T.alloc_fragment((bars,), T.float32)
        low = T.alloc_fragment((bars,), T.float32)
        volume = T.alloc_fragment((bars,), T.float32)
        worth = T.alloc_fragment((bars,), T.float32)

        T.copy(Price[bx * bars, 0], price)
        T.copy(Size[bx * bars, 0], size)
        T.reduce_max(price, high, dim=1)
        T.reduce_min(price, low, dim=1)
        T.reduce_sum(size, volume, dim=1)
        for b, t in T.Parallel(bars, TICKS):
            price[b, t] *= size[b, t]
        T.reduce_sum(price, worth, dim=1)
        for b in T.Parallel(bars):
            worth[b] /= T.max(volume[b], 1e-6)
        T.copy(high, Bar[0, bx * bars : (bx + 1) * bars])
        T.copy(low, Bar[1, bx * bars : (bx + 1) * bars])
        T.copy(volume, Bar[2, bx * bars : (bx + 1) * bars])
        T.copy(worth, Bar[3, bx * bars : (bx + 1) * bars])
    return Bar
