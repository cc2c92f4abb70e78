# ruff: noqa: ANN001, ANN201, D103
"""A product of bfloat16 matrices: C = A · Bᵀ."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def gemm(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        T.use_swizzle(8)
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((columns, depth), T.bfloat16)
        C_local = T.alloc_fragment((rows, columns), T.float32)

        T.clear(C_local)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.gemm(A_shared, B_shared, C_local, transpose_B=True)
        T.copy(C_local, C[by * rows, bx * columns])
    return C
