# ruff: noqa: ANN001, ANN201, D103
"""The gradient of a layer's weights: C = Aᵀ · B, summed over rows of both."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def outer(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((K, M), T.bfloat16)
    B: T.Tensor((K, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        A_shared = T.alloc_shared((depth, rows), T.bfloat16)
        B_shared = T.alloc_shared((depth, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(A[k * depth, by * rows], A_shared)
            T.copy(B[k * depth, bx * columns], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_A=True)
        T.copy(sums, C[by * rows, bx * columns])
    return C
