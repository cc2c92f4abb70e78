# ruff: noqa: ANN001, ANN201, D103
"""A product of matrices of ones and minus ones, 32 to a word, by counting bits that differ."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def binary_product(A, B):
    M, N, words = T.const("M, N, words")
    A: T.Tensor((M, words), T.int32)
    B: T.Tensor((N, words), T.int32)
    C = T.empty((M, N), T.int32)
    rows, columns, depth = 64, 64, 16

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        a = T.alloc_shared((rows, depth), T.int32)
        b = T.alloc_shared((columns, depth), T.int32)
        differ = T.alloc_fragment((rows, columns), T.int32)

        T.clear(differ)
        for k in T.Pipelined(T.ceildiv(words, depth), num_stages=2):
            T.copy(A[by * rows, k * depth], a)
            T.copy(B[bx * columns, k * depth], b)
            for d in T.serial(depth):
                for i, j in T.Parallel(rows, columns):
                    differ[i, j] += T.popcount(a[i, d] ^ b[j, d])
        for i, j in T.Parallel(rows, columns):
            C[by * rows + i, bx * columns + j] = words * 32 - 2 * differ[i, j]
    return C
