# ruff: noqa: ANN001, ANN201, D103
"""Squared correlations of all pairs of genetic markers, by a product of bytes."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def linkage(Marker, Total, Square):
    N, K = T.const("N, K")
    Marker: T.Tensor((N, K), T.int8)
    Total: T.Tensor((N,), T.float32)
    Square: T.Tensor((N,), T.float32)
    Out = T.empty((N, N), T.float16)
    rows, columns, depth = 128, 128, 128

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(N, rows), threads=256) as (bx, by):
        one = T.alloc_shared((rows, depth), T.int8)
        other = T.alloc_shared((columns, depth), T.int8)
        dots = T.alloc_fragment((rows, columns), T.int32)
        fit = T.alloc_fragment((rows, columns), T.float32)

        T.clear(dots)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(Marker[by * rows, k * depth], one)
            T.copy(Marker[bx * columns, k * depth], other)
            T.gemm(one, other, dots, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            a, b = Total[by * rows + i], Total[bx * columns + j]
            spread = Square[by * rows + i] - a * a / K
            spread = spread * (Square[bx * columns + j] - b * b / K)
            shared = T.cast(dots[i, j], T.float32) - a * b / K
            fit[i, j] = shared * shared / T.max(spread, 1e-6)
        T.copy(fit, Out[by * rows, bx * columns])
    return Out
