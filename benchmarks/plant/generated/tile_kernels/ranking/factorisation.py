# ruff: noqa: ANN001, ANN201, D103
"""Interactions of all pairs of a sample's features, by their embeddings."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def factorisation(Table, Feature):
    V, D, M, F = T.const("V, D, M, F")
    Table: T.Tensor((V, D), T.bfloat16)
    Feature: T.Tensor((M, F), T.int32)
    Out = T.empty((M,), T.float32)
    samples = 16

    with T.Kernel(T.ceildiv(M, samples), threads=128) as block:
        sums = T.alloc_fragment((samples, D), T.float32)
        squares = T.alloc_fragment((samples, D), T.float32)
        total = T.alloc_fragment((samples,), T.float32)

        T.clear(sums)
        T.clear(squares)
        for f in T.serial(F):
            for i, j in T.Parallel(samples, D):
                x = T.cast(Table[Feature[block * samples + i, f], j], T.float32)
                sums[i, j] += x
                squares[i, j] += x * x
        for i, j in T.Parallel(samples, D):
            sums[i, j] = (sums[i, j] * sums[i, j] - squares[i, j]) * 0.5
        T.reduce_sum(sums, total, dim=1)
        T.copy(total, Out[block * samples : (block + 1) * samples])
    return Out
