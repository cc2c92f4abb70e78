# ruff: noqa: ANN001, ANN201, D103
"""Levels and slopes of series, as a Kalman filter keeps them up to date."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def kalman(X):
    L, N = T.const("L, N")
    X: T.Tensor((L, N), T.float32)
    Out = T.empty((L, N), T.float32)
    series = 256

    with T.Kernel(T.ceildiv(N, series), threads=256) as block:
        level = T.alloc_fragment((series,), T.float32)
        slope = T.alloc_fragment((series,), T.float32)
        sure = T.alloc_fragment((3, series), T.float32)

        T.clear(level)
        T.clear(slope)
        T.fill(sure, 1.0)
        for t in T.serial(L):
            for i in T.Parallel(series):
                ahead = level[i] + slope[i]
                one = sure[0, i] + 2.0 * sure[1, i] + sure[2, i] + 0.1
                both = sure[1, i] + sure[2, i]
                two = sure[2, i] + 0.01
                gain, turn = one / (one + 0.5), both / (one + 0.5)
                miss = X[t, block * series + i] - ahead
                level[i] = ahead + gain * miss
                slope[i] = slope[i] + turn * miss
                sure[0, i] = one * (1.0 - gain)
                sure[1, i] = both * (1.0 - gain)
                sure[2, i] = two - turn * both
                Out[t, block * series + i] = level[i]
    return Out
