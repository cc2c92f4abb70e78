# ruff: noqa: ANN001, ANN201, D103
"""How far one distribution of each row is from another, from their logarithms."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def divergence(P, Q):
    M, N = T.const("M, N")
    P: T.Tensor((M, N), T.float32)
    Q: T.Tensor((M, N), T.float32)
    Out = T.empty((M,), T.float32)
    rows, columns = 8, 512

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        one = T.alloc_shared((rows, columns), T.float32)
        other = T.alloc_shared((rows, columns), T.float32)
        sums = T.alloc_fragment((rows, columns), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(N, columns), num_stages=3):
            T.copy(P[block * rows, k * columns], one)
            T.copy(Q[block * rows, k * columns], other)
            for i, j in T.Parallel(rows, columns):
                sums[i, j] += T.exp2(one[i, j] * 1.44269504) * (one[i, j] - other[i, j])
        T.reduce_sum(sums, total, dim=1)
        T.copy(total, Out[block * rows])
    return Out
