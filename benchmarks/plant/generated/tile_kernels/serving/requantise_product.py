# ruff: noqa: ANN001, ANN201, D103
"""A product of bytes whose results are bytes again, as layers of quantised networks pass on."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def requantise_product(A, W, Scale, Bias):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.int8)
    W: T.Tensor((N, K), T.int8)
    Scale: T.Tensor((N,), T.float32)
    Bias: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.int8)
    rows, columns, depth = 128, 128, 128

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        a = T.alloc_shared((rows, depth), T.int8)
        w = T.alloc_shared((columns, depth), T.int8)
        sums = T.alloc_fragment((rows, columns), T.int32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[by * rows, k * depth], a)
            T.copy(W[bx * columns, k * depth], w)
            T.gemm(a, w, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            scaled = T.cast(sums[i, j], T.float32) * Scale[bx * columns + j]
            whole = T.floor(scaled + Bias[bx * columns + j] + 0.5)
            C[by * rows + i, bx * columns + j] = T.clamp(whole, -128.0, 127.0)
    return C
