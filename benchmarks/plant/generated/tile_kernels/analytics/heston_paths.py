# ruff: noqa: ANN001, ANN201, D103
"""Means of prices along paths whose variance moves by chance, too, as Asian options pay."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def heston_paths(Noise):
    steps, paths = T.const("steps, paths")
    Noise: T.Tensor((2, steps, paths), T.float32)
    Pay = T.empty((paths,), T.float32)
    columns = 512
    step, drift, back, level, swing = 0.01, 0.02, 2.0, 0.04, 0.3

    with T.Kernel(T.ceildiv(paths, columns), threads=256) as block:
        price = T.alloc_fragment((columns,), T.float32)
        spread = T.alloc_fragment((columns,), T.float32)
        total = T.alloc_fragment((columns,), T.float32)

        T.fill(price, 1.0)
        T.fill(spread, level)
        T.clear(total)
        for t in T.serial(steps):
            for i in T.Parallel(columns):
                at = block * columns + i
                held = T.max(spread[i], 0.0)
                root = T.sqrt(held * step)
                one, other = Noise[0, t, at], Noise[1, t, at]
                price[i] *= T.exp((drift - 0.5 * held) * step + root * one)
                turn = 0.8 * other - 0.6 * one
                spread[i] = spread[i] + back * (level - held) * step + swing * root * turn
                total[i] += price[i]
        for i in T.Parallel(columns):
            if block * columns + i < paths:
                Pay[block * columns + i] = T.max(total[i] / steps - 1.0, 0.0)
    return Pay
