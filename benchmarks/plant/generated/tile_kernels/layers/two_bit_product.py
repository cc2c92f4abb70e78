# ruff: noqa: ANN001, ANN201, D103
"""A product of bytes with weights of two bits, sixteen in a word."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def two_bit_product(A, Words, Scale):
    M, N, K, words = T.const("M, N, K, words")
    A: T.Tensor((M, K), T.int8)
    Words: T.Tensor((N, words), T.int32)
    Scale: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float32)
    rows, columns, depth = 128, 128, 128

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        left = T.alloc_shared((rows, depth), T.int8)
        packed = T.alloc_shared((columns, depth // 16), T.int32)
        weights = T.alloc_shared((columns, depth), T.int8)
        sums = T.alloc_fragment((rows, columns), T.int32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * rows, k * depth], left)
            T.copy(Words[bx * columns, k * (depth // 16)], packed)
            for i, j in T.Parallel(columns, depth):
                weights[i, j] = ((packed[i, j // 16] >> (j % 16 * 2)) & 3) - 1
            T.gemm(left, weights, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            C[by * rows + i, bx * columns + j] = sums[i, j] * Scale[bx * columns + j]
    return C
