# ruff: noqa: ANN001, ANN201, D103
"""Spikes of neurons that leak, in whole numbers, as chips made for them reckon."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lif_neurons(Current):
    steps, N = T.const("steps, N")
    Current: T.Tensor((steps, N), T.int8)
    Spike = T.empty((steps, N), T.int8)
    neurons = 1024
    threshold = 1024

    with T.Kernel(T.ceildiv(N, neurons), threads=256) as bx:
        charge = T.alloc_fragment((neurons,), T.int32)

        T.clear(charge)
        for t in T.serial(steps):
            for i in T.Parallel(neurons):
                n = bx * neurons + i
                if n < N:
                    led = T.cast(Current[t, n], T.int32) * 8
                    charge[i] = charge[i] - (charge[i] >> 4) + led
                    fires = charge[i] >= threshold
                    Spike[t, n] = T.if_then_else(fires, T.cast(1, T.int8), T.cast(0, T.int8))
                    charge[i] = T.if_then_else(fires, 0, charge[i])
    return Spike
