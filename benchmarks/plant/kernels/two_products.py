# ruff: noqa: ANN001, ANN201, D103
"""The sum of two products: C = A · Bᵀ + D · Eᵀ."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def two_products(A, B, D, E):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    D: T.Tensor((M, K), T.bfloat16)
    E: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 64, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((columns, depth), T.bfloat16)
        D_shared = T.alloc_shared((rows, depth), T.bfloat16)
        E_shared = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.copy(D[by * rows, k * depth], D_shared)
            T.copy(E[bx * columns, k * depth], E_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
            T.gemm(D_shared, E_shared, sums, transpose_B=True)
        T.copy(sums, C[by * rows, bx * columns])
    return C
