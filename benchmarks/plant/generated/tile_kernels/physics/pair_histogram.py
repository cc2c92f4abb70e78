# ruff: noqa: ANN001, ANN201, D103
"""Histograms of the distances from each 256 particles to each 1024 others."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def pair_histogram(Place):
    N = T.const("N")
    Place: T.Tensor((3, N), T.float32)
    own, others, bins = 256, 1024, 256
    Count = T.empty((T.ceildiv(N, own), T.ceildiv(N, others), bins), T.int32)

    with T.Kernel(T.ceildiv(N, others), T.ceildiv(N, own), threads=256) as (bo, b):
        near = T.alloc_shared((3, own), T.float32)
        far = T.alloc_fragment((3, others), T.float32)
        count = T.alloc_shared((bins,), T.int32)

        T.clear(count)
        T.copy(Place[0:3, b * own : (b + 1) * own], near)
        T.copy(Place[0:3, bo * others : (bo + 1) * others], far)
        for n in T.serial(own):
            for i in T.Parallel(others):
                x, y, z = near[0, n] - far[0, i], near[1, n] - far[1, i], near[2, n] - far[2, i]
                place = T.cast(T.sqrt(x * x + y * y + z * z) * 32.0, T.int32)
                if b * own + n < N and bo * others + i < N and place < bins:
                    T.atomic_add(count[place], 1)
        T.copy(count, Count[b, bo, 0:bins])
    return Count
