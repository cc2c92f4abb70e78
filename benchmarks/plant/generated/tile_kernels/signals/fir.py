# ruff: noqa: ANN001, ANN201, D103
"""Signals by a filter of 64 taps."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def fir(X, Taps):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Taps: T.Tensor((64,), T.float32)
    Y = T.empty((M, N - 63), T.float32)
    samples = 1024

    with T.Kernel(T.ceildiv(N - 63, samples), M, threads=256) as (block, row):
        held = T.alloc_shared((samples + 64,), T.float32)
        taps = T.alloc_shared((64,), T.float32)
        sums = T.alloc_fragment((samples,), T.float32)

        T.copy(Taps, taps)
        for i in T.Parallel(samples + 64):
            held[i] = X[row, block * samples + i]
        T.clear(sums)
        for tap in T.serial(64):
            for i in T.Parallel(samples):
                sums[i] += held[i + tap] * taps[tap]
        for i in T.Parallel(samples):
            Y[row, block * samples + i] = sums[i]
    return Y
