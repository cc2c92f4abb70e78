# ruff: noqa: ANN001, ANN201, D103
"""Two products of one matrix, one gates the other: (A · Bᵀ) · sigmoid(A · Gᵀ)."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def gate_pair(A, B, G):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    G: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((columns, depth), T.bfloat16)
        G_shared = T.alloc_shared((columns, depth), T.bfloat16)
        values = T.alloc_fragment((rows, columns), T.float32)
        gates = T.alloc_fragment((rows, columns), T.float32)

        T.clear(values)
        T.clear(gates)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.copy(G[bx * columns, k * depth], G_shared)
            T.gemm(A_shared, B_shared, values, transpose_B=True)
            T.gemm(A_shared, G_shared, gates, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            values[i, j] = values[i, j] / (1.0 + T.exp2(gates[i, j] * -1.44269504))
        T.copy(values, C[by * rows, bx * columns])
    return C
