# ruff: noqa: ANN001, ANN201, D103
"""Bits that series of numbers take when each is stored by what differs from the one before it."""

import tileprof
import tileprof.lang as T

PAGE = 1024


@T.macro
def cost(word):
    bits = 1
    if word != 0:
        lead = T.cast(T.clz(word), T.int32)
        trail = T.cast(T.popcount((word & (0 - word)) - 1), T.int32)
        bits = 2 + 5 + 6 + 32 - lead - trail
    return bits


@tileprof.jit
def gorilla_bits(X):
    series, N = T.const("series, N")
    X: T.Tensor((series, N), T.int32)
    Bits = T.empty((series, N // PAGE), T.int32)

    with T.Kernel(N // PAGE, series, threads=128) as (part, s):
        word = T.alloc_shared((PAGE + 1,), T.int32)
        bits = T.alloc_fragment((PAGE,), T.int32)
        total = T.alloc_fragment((1,), T.int32)

        for i in T.Parallel(PAGE + 1):
            at = part * PAGE + i - 1
            word[i] = T.if_then_else(at >= 0, X[s, T.max(at, 0)], 0)
        for i in T.Parallel(PAGE):
            bits[i] = cost(word[i + 1] ^ word[i])
        T.reduce_sum(bits, total, dim=0)
        Bits[s, part] = total[0]
    return Bits
