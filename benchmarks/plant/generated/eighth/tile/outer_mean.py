# ruff: noqa: ANN001, ANN201, D103
"""Means of outer products over the sequences of an alignment, as protein models update pairs."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def outer_mean(A, B, block_M: int = 128, block_N: int = 128):
    S, M, N = T.const("S, M, N")
    A: T.Tensor((S, M), T.bfloat16)
    B: T.Tensor((S, N), T.bfloat16)
    Pair = T.empty((M, N), T.bfloat16)
    block_S = 64

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bn, bm):
        a = T.alloc_shared((block_S, block_M), T.bfloat16)
        b = T.alloc_shared((block_S, block_N), T.bfloat16)
        acc = T.alloc_fragment((block_M, block_N), T.float32)

        T.clear(acc)
        for s in T.Pipelined(T.ceildiv(S, block_S), num_stages=3):
            T.copy(A[s * block_S, bm * block_M], a)
            T.copy(B[s * block_S, bn * block_N], b)
            T.gemm(a, b, acc, transpose_A=True)
        for i, j in T.Parallel(block_M, block_N):
            acc[i, j] = acc[i, j] * (1.0 / S)
        T.copy(acc, Pair[bm * block_M, bn * block_N])
    return Pair
