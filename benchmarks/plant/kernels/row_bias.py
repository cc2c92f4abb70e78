# ruff: noqa: ANN001, ANN201, D103
"""A product whose rows have biases, cut off at zero: max(A · Bᵀ + bias, 0)."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def row_bias(A, B, bias):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    bias: T.Tensor((M,), T.float32)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = T.max(sums[i, j] + bias[by * rows + i], 0.0)
        T.copy(sums, C[by * rows, bx * columns])
    return C
