# ruff: noqa: ANN001, ANN201, D103
"""A product of complex matrices, whose real and imaginary parts lie apart."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def complex_gemm(A, Ai, B, Bi):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float16)
    Ai: T.Tensor((M, K), T.float16)
    B: T.Tensor((K, N), T.float16)
    Bi: T.Tensor((K, N), T.float16)
    C = T.empty((2, M, N), T.float32)
    rows, columns, depth = 128, 64, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        left = T.alloc_shared((rows, depth), T.float16)
        left_i = T.alloc_shared((rows, depth), T.float16)
        right = T.alloc_shared((depth, columns), T.float16)
        right_i = T.alloc_shared((depth, columns), T.float16)
        plain = T.alloc_fragment((rows, columns), T.float32)
        turned = T.alloc_fragment((rows, columns), T.float32)
        cross = T.alloc_fragment((rows, columns), T.float32)

        T.clear(plain)
        T.clear(turned)
        T.clear(cross)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=2):
            T.copy(A[by * rows, k * depth], left)
            T.copy(Ai[by * rows, k * depth], left_i)
            T.copy(B[k * depth, bx * columns], right)
            T.copy(Bi[k * depth, bx * columns], right_i)
            T.gemm(left, right, plain)
            T.gemm(left_i, right_i, turned)
            T.gemm(left, right_i, cross)
            T.gemm(left_i, right, cross)
        for i, j in T.Parallel(rows, columns):
            plain[i, j] -= turned[i, j]
        T.copy(plain, C[0, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
        T.copy(cross, C[1, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
    return C
