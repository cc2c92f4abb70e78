# ruff: noqa: ANN001, ANN201, D103
"""Squares of the distances from each point of one cloud to the nearest of another."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def chamfer(A, B):
    M, N = T.const("M, N")
    A: T.Tensor((3, M), T.float32)
    B: T.Tensor((3, N), T.float32)
    Out = T.empty((M,), T.float32)
    points, others = 64, 64

    with T.Kernel(T.ceildiv(M, points), threads=128) as block:
        own = T.alloc_shared((3, points), T.float32)
        other = T.alloc_shared((3, others), T.float32)
        apart = T.alloc_fragment((points, others), T.float32)
        least = T.alloc_fragment((points,), T.float32)

        T.copy(A[0, block * points], own)
        T.fill(least, T.infinity(T.float32))
        for k in T.Pipelined(N // others, num_stages=3):
            T.copy(B[0, k * others], other)
            for i, j in T.Parallel(points, others):
                dx = own[0, i] - other[0, j]
                dy = own[1, i] - other[1, j]
                dz = own[2, i] - other[2, j]
                apart[i, j] = dx * dx + dy * dy + dz * dz
            T.reduce_min(apart, least, dim=1, clear=False)
        T.copy(least, Out[block * points])
    return Out
