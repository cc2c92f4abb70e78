# ruff: noqa: ANN001, ANN201, D103
"""Sound from many directions: microphones, each late by its own delay, are added."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def beamform(X, Delay, Weight):
    mics, length, beams = T.const("mics, length, beams")
    X: T.Tensor((mics, length), T.float32)
    Delay: T.Tensor((beams, mics), T.int32)
    Weight: T.Tensor((beams, mics), T.float32)
    Out = T.empty((beams, length - 128), T.float32)
    samples = 1024

    with T.Kernel(T.ceildiv(length - 128, samples), beams, threads=256) as (block, beam):
        sums = T.alloc_fragment((samples,), T.float32)

        T.clear(sums)
        for mic in T.serial(mics):
            for i in T.Parallel(samples):
                at = block * samples + i + Delay[beam, mic]
                sums[i] += X[mic, at] * Weight[beam, mic]
        T.copy(sums, Out[beam, block * samples : (block + 1) * samples])
    return Out
