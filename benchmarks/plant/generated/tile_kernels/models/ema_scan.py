# ruff: noqa: ANN001, ANN201, D103
"""Averages along time that forget at a rate of each channel."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ema_scan(X, Keep):
    batch, length, C = T.const("batch, length, C")
    X: T.Tensor((batch, length, C), T.float32)
    Keep: T.Tensor((C,), T.float32)
    Y = T.empty((batch, length, C), T.float32)
    steps, channels = 32, 128

    with T.Kernel(T.ceildiv(C, channels), batch, threads=128) as (bx, b):
        tile = T.alloc_shared((steps, channels), T.float32)
        made = T.alloc_shared((steps, channels), T.float32)
        keep = T.alloc_fragment((channels,), T.float32)
        state = T.alloc_fragment((channels,), T.float32)

        T.copy(Keep[bx * channels], keep)
        T.clear(state)
        for k in T.Pipelined(T.ceildiv(length, steps), num_stages=3):
            T.copy(X[b, k * steps : (k + 1) * steps, bx * channels : (bx + 1) * channels], tile)
            for t in T.serial(steps):
                for c in T.Parallel(channels):
                    state[c] = tile[t, c] + keep[c] * (state[c] - tile[t, c])
                    made[t, c] = state[c]
            T.copy(made, Y[b, k * steps : (k + 1) * steps, bx * channels : (bx + 1) * channels])
    return Y
