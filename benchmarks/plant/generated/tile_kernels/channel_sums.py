# ruff: noqa: ANN001, ANN201, D103
"""Sums of each channel over a batch, which blocks add up to each other's."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def channel_sums(X, Sums):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Sums: T.Tensor((N,), T.float32)
    rows, columns, turns = 32, 256, 16

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows * turns), threads=256) as (bx, by):
        tile = T.alloc_shared((rows, columns), T.bfloat16)
        part = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)

        T.clear(part)
        for k in T.Pipelined(turns, num_stages=3):
            T.copy(X[(by * turns + k) * rows, bx * columns], tile)
            for i, j in T.Parallel(rows, columns):
                part[i, j] += T.cast(tile[i, j], T.float32)
        T.reduce_sum(part, total, dim=0)
        T.atomic_add(Sums[bx * columns], total)
