# ruff: noqa: ANN001, ANN201, D103
"""Sound at four times the rate, by a filter of four phases of sixteen taps."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def polyphase(X, Taps):
    batch, length = T.const("batch, length")
    X: T.Tensor((batch, length), T.float32)
    Taps: T.Tensor((16, 4), T.float32)
    Out = T.empty((batch, length - 16, 4), T.float32)
    samples = 512

    with T.Kernel(T.ceildiv(length - 16, samples), batch, threads=256) as (block, b):
        x = T.alloc_shared((samples + 16,), T.float32)
        taps = T.alloc_shared((16, 4), T.float32)
        made = T.alloc_fragment((samples, 4), T.float32)

        T.copy(X[b, block * samples : block * samples + samples + 16], x)
        T.copy(Taps, taps)
        T.clear(made)
        for tap in T.serial(16):
            for i, phase in T.Parallel(samples, 4):
                made[i, phase] += x[i + 15 - tap] * taps[tap, phase]
        T.copy(made, Out[b, block * samples : (block + 1) * samples, 0:4])
    return Out
