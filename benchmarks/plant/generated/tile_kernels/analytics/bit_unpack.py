# ruff: noqa: ANN001, ANN201, D103
"""Columns of a database whose numbers of twelve bits are packed without gaps."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def bit_unpack(Packed):
    W = T.const("W")
    Packed: T.Tensor((W,), T.int32)
    Out = T.empty((W // 3 * 8,), T.int32)
    words, numbers = 768, 2048

    with T.Kernel(T.ceildiv(W, words), threads=256) as block:
        packed = T.alloc_shared((words,), T.int32)

        T.copy(Packed[block * words : (block + 1) * words], packed)
        for i in T.Parallel(numbers):
            first = i * 12 & 31
            kept = T.min(32 - first, 12)
            low = (packed[i * 12 >> 5] >> first) & ((1 << kept) - 1)
            high = packed[(i * 12 + 11) >> 5] << kept
            if block * numbers + i < W // 3 * 8:
                Out[block * numbers + i] = (low | T.if_then_else(kept < 12, high, 0)) & 4095
    return Out
