# ruff: noqa: ANN001, ANN201, D103
"""By how much echoes stand out of the noise around them: a radar's constant rate of alarms."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cfar_detect(Power, train: int = 16, guard: int = 4):
    pulses, N = T.const("pulses, N")
    Power: T.Tensor((pulses, N), T.float32)
    Excess = T.empty((pulses, N), T.float32)
    gates = 512
    reach = train + guard
    alpha = 3.0

    with T.Kernel(T.ceildiv(N, gates), pulses, threads=256) as (bg, pulse):
        cells = T.alloc_shared((gates + 2 * reach,), T.float32)
        noise = T.alloc_fragment((gates,), T.float32)

        for i in T.Parallel(gates + 2 * reach):
            at = bg * gates + i - reach
            cells[i] = Power[pulse, T.clamp(at, 0, N - 1)]
        T.clear(noise)
        for k in T.serial(train):
            for i in T.Parallel(gates):
                noise[i] += cells[i + k] + cells[i + reach + guard + 1 + k]
        for i in T.Parallel(gates):
            level = noise[i] * (alpha / (2 * train))
            Excess[pulse, bg * gates + i] = T.max(cells[i + reach] - level, 0.0)
    return Excess
