# ruff: noqa: ANN001, ANN201, D103
"""How well a motif of sixteen bases fits each place of a sequence."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def motif_scan(Sequence, Weight):
    N = T.const("N")
    Sequence: T.Tensor((N,), T.uint8)
    Weight: T.Tensor((16, 4), T.float32)
    Out = T.empty((N - 16,), T.float32)
    places = 2048

    with T.Kernel(T.ceildiv(N - 16, places), threads=256) as block:
        bases = T.alloc_shared((places + 16,), T.uint8)
        weight = T.alloc_shared((16, 4), T.float32)
        score = T.alloc_fragment((places,), T.float32)

        T.copy(Sequence[block * places : block * places + places + 16], bases)
        T.copy(Weight, weight)
        T.clear(score)
        for tap in T.serial(16):
            for i in T.Parallel(places):
                score[i] += weight[tap, T.cast(bases[i + tap], T.int32)]
        T.copy(score, Out[block * places : (block + 1) * places])
    return Out
