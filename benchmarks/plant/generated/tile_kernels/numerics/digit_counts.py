# ruff: noqa: ANN001, ANN201, D103
"""How often each block of keys has each digit of four bits: a pass of radix sort."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def digit_counts(Keys):
    N = T.const("N")
    Keys: T.Tensor((N,), T.int32)
    keys, shift = 4096, 8
    blocks = T.ceildiv(N, keys)
    Count = T.empty((blocks, 16), T.int32)

    with T.Kernel(blocks, threads=256) as block:
        count = T.alloc_shared((16,), T.int32)

        T.clear(count)
        for i in T.Parallel(keys):
            if block * keys + i < N:
                digit = (Keys[block * keys + i] >> shift) & 15
                T.atomic_add(count[digit], 1)
        T.copy(count, Count[block, 0:16])
    return Count
