# ruff: noqa: ANN001, ANN201, D103
"""A product with weights of four bits that stand for sixteen values of a normal distribution."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def nf4_product(A, Packed, Scales, Values):
    M, N, K, bytes, groups = T.const("M, N, K, bytes, groups")
    A: T.Tensor((M, K), T.bfloat16)
    Packed: T.Tensor((N, bytes), T.uint8)
    Scales: T.Tensor((groups, N), T.float32)
    Values: T.Tensor((16,), T.float32)
    C = T.empty((M, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        left = T.alloc_shared((rows, depth), T.bfloat16)
        packed = T.alloc_shared((columns, depth // 2), T.uint8)
        weights = T.alloc_shared((columns, depth), T.bfloat16)
        values = T.alloc_shared((16,), T.float32)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.copy(Values, values)
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * rows, k * depth], left)
            T.copy(Packed[bx * columns, k * (depth // 2)], packed)
            for i, j in T.Parallel(columns, depth):
                nibble = (T.cast(packed[i, j // 2], T.int32) >> (j % 2 * 4)) & 15
                weights[i, j] = values[nibble] * Scales[k, bx * columns + i]
            T.gemm(left, weights, sums, transpose_B=True)
        T.copy(sums, C[by * rows, bx * columns])
    return C
