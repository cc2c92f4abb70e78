# ruff: noqa: ANN001, ANN201, D103
"""Edges from pairs of edges around a third corner, channel by channel, behind a gate."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def triangle_product(A, B, Gate):
    C, N, K = T.const("C, N, K")
    A: T.Tensor((C, N, K), T.bfloat16)
    B: T.Tensor((C, N, K), T.bfloat16)
    Gate: T.Tensor((C, N, N), T.bfloat16)
    Out = T.empty((C, N, N), T.bfloat16)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(N, rows), C, threads=256) as (bx, by, c):
        left = T.alloc_shared((rows, depth), T.bfloat16)
        right = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
            T.copy(A[c, by * rows : (by + 1) * rows, k * depth : (k + 1) * depth], left)
            T.copy(B[c, bx * columns : (bx + 1) * columns, k * depth : (k + 1) * depth], right)
            T.gemm(left, right, sums, transpose_B=True)
        for i, j in T.Parallel(rows, columns):
            gate = T.cast(Gate[c, by * rows + i, bx * columns + j], T.float32)
            sums[i, j] = sums[i, j] / (1.0 + T.__exp2(gate * -1.44269504))
        T.copy(sums, Out[c, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
    return Out
