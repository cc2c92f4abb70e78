# ruff: noqa: ANN001, ANN201, D103
"""Products of a batch with a squared ReLU behind them: max(A · B + bias, 0)²."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def batched(A, B, bias):
    batch, M, N, K = T.const("batch, M, N, K")
    A: T.Tensor((batch, M, K), T.bfloat16)
    B: T.Tensor((batch, K, N), T.bfloat16)
    bias: T.Tensor((N,), T.float32)
    C = T.empty((batch, M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), batch, threads=256) as (bx, by, bz):
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((depth, columns), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=4):
            T.copy(A[bz, by * rows : (by + 1) * rows, k * depth : (k + 1) * depth], A_shared)
            T.copy(B[bz, k * depth : (k + 1) * depth, bx * columns : (bx + 1) * columns], B_shared)
            T.gemm(A_shared, B_shared, sums)
        for i, j in T.Parallel(rows, columns):
            sums[i, j] = T.max(sums[i, j] + bias[bx * columns + j], 0.0)
            sums[i, j] = sums[i, j] * sums[i, j]
        T.copy(sums, C[bz, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
    return C
