# ruff: noqa: ANN001, ANN201, D103
"""A matrix times its transpose, of which the tiles on and below the diagonal are made."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def gram(A, C):
    N, K = T.const("N, K")
    A: T.Tensor((N, K), T.bfloat16)
    C: T.Tensor((N, N), T.float32)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(N, rows), threads=256) as (bx, by):
        one = T.alloc_shared((rows, depth), T.bfloat16)
        other = T.alloc_shared((columns, depth), T.bfloat16)
        dots = T.alloc_fragment((rows, columns), T.float32)

        if bx * columns < (by + 1) * rows:
            T.clear(dots)
            for k in T.Pipelined(T.ceildiv(K, depth), num_stages=3):
                T.copy(A[by * rows, k * depth], one)
                T.copy(A[bx * columns, k * depth], other)
                T.gemm(one, other, dots, transpose_B=True)
            for i, j in T.Parallel(rows, columns):
                row, column = by * rows + i, bx * columns + j
                C[row, column] = T.if_then_else(column <= row, dots[i, j], 0.0)
