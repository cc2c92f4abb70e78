# ruff: noqa: ANN001, ANN201, D103
"""A layer with its residual: R + x · sigmoid(1.702 · x) of x = A · Bᵀ + bias."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def residual(A, B, bias, R):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    bias: T.Tensor((N,), T.float32)
    R: T.Tensor((M, N), T.bfloat16)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((columns, depth), T.bfloat16)
        R_shared = T.alloc_shared((rows, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.copy(R[by * rows, bx * columns], R_shared)
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            x = sums[i, j] + bias[bx * columns + j]
            sums[i, j] = x / (1.0 + T.__exp2(x * -2.45546696)) + R_shared[i, j]
        T.copy(sums, C[by * rows, bx * columns])
    return C
