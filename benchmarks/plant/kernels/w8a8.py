# ruff: noqa: ANN001, ANN201, D103
"""A product of matrices of eight bits, scaled by the token's and the channel's factor."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def w8a8(A, B, Token, Channel):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    B: T.Tensor((N, K), T.int8)
    Token: T.Tensor((M,), T.float32)
    Channel: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 256, 128

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        A_shared = T.alloc_shared((rows, depth), T.int8)
        B_shared = T.alloc_shared((columns, depth), T.int8)
        sums = T.alloc_fragment((rows, columns), T.int32)
        out = T.alloc_shared((rows, columns), T.bfloat16)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * rows, k * depth], A_shared)
            T.copy(B[bx * columns, k * depth], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            factor = Token[by * rows + i] * Channel[bx * columns + j]
            out[i, j] = T.cast(sums[i, j], T.float32) * factor
        T.copy(out, C[by * rows, bx * columns])
    return C
