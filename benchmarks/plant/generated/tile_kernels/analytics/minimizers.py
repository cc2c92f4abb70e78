# ruff: noqa: ANN001, ANN201, D103
"""Least hashes of each ten neighbouring words of twelve bases, as read mappers index them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def minimizers(Sequence):
    N = T.const("N")
    Sequence: T.Tensor((N,), T.uint8)
    Out = T.empty((N - 32,), T.int32)
    places = 2048

    with T.Kernel(T.ceildiv(N - 32, places), threads=256) as block:
        bases = T.alloc_shared((places + 32,), T.uint8)
        hashed = T.alloc_shared((places + 16,), T.int32)

        T.copy(Sequence[block * places : block * places + places + 32], bases)
        for i in T.Parallel(places + 16):
            word = 0
            for tap in T.serial(12):
                word = (word << 2) | T.cast(bases[i + tap], T.int32)
            mixed = (word ^ (word >> 11)) * 101
            hashed[i] = (mixed ^ (mixed >> 13)) & 16777215
        for i in T.Parallel(places):
            least = hashed[i]
            for tap in T.serial(9):
                least = T.min(least, hashed[i + tap + 1])
            Out[block * places + i] = least
    return Out
