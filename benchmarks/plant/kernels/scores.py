# ruff: noqa: ANN001, ANN201, D103
"""Similarities of two sets of vectors, batch by batch: A · Bᵀ by a temperature."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def scores(A, B):
    batch, M, N, K = T.const("batch, M, N, K")
    A: T.Tensor((batch, M, K), T.float16)
    B: T.Tensor((batch, N, K), T.float16)
    C = T.empty((batch, M, N), T.float16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), batch, threads=256) as (bx, by, bz):
        A_shared = T.alloc_shared((rows, depth), T.float16)
        B_shared = T.alloc_shared((columns, depth), T.float16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(A[bz, by * rows : (by + 1) * rows, k * depth : (k + 1) * depth], A_shared)
            T.copy(B[bz, bx * columns : (bx + 1) * columns, k * depth : (k + 1) * depth], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] *= 0.0625
        T.copy(sums, C[bz, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
    return C
