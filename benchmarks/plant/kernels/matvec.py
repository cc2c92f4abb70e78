# ruff: noqa: ANN001, ANN201, D103
"""A matrix by a vector, as a decoder's layers have it for one token."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def matvec(A, x):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.bfloat16)
    x: T.Tensor((N,), T.bfloat16)
    y = T.empty((M,), T.float32)
    rows, columns = 16, 512

    with T.Kernel(T.ceildiv(M, rows), threads=256) as bx:
        tile = T.alloc_shared((rows, columns), T.bfloat16)
        part = T.alloc_shared((columns,), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=3):
            T.copy(A[bx * rows, k * columns], tile)
            T.copy(x[k * columns], part)
            for i, j in T.Parallel(rows, columns):
                sums[i, j] += T.cast(tile[i, j], T.float32) * T.cast(part[j], T.float32)
        T.reduce_sum(sums, total, dim=1)
        T.copy(total, y[bx * rows])
    return y
