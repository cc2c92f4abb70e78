# ruff: noqa: ANN001, ANN201, D103
"""A product that leaves out tiles of the depth which a mask says are zero."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def sparse_gemm(A, B, Mask):
    M, N, K, tiles = T.const("M, N, K, tiles")
    A: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    Mask: T.Tensor((T.ceildiv(M, 128), tiles), T.int32)
    C = T.empty((M, N), T.float16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=128) as (bx, by):
        left = T.alloc_shared((rows, depth), T.float16)
        right = T.alloc_shared((depth, columns), T.float16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            if Mask[by * rows // 128, k * depth // 64] != 0:
                T.copy(A[by * rows, k * depth], left)
                T.copy(B[k * depth, bx * columns], right)
                T.gemm(left, right, sums)
        T.copy(sums, C[by * rows, bx * columns])
    return C
