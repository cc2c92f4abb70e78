# ruff: noqa: ANN001, ANN201, D103
"""What eight experts gave for a token, weighted and added up."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def combine_experts(X, Place, Weight):
    R, N, M, E = T.const("R, N, M, E")
    X: T.Tensor((R, N), T.bfloat16)
    Place: T.Tensor((M, E), T.int32)
    Weight: T.Tensor((M, E), T.float32)
    Out = T.empty((M, N), T.float32)
    rows, columns = 2, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        sums = T.alloc_fragment((rows, columns), T.float32)
        T.clear(sums)
        for e in T.serial(E):
            for i, j in T.Parallel(rows, columns):
                token = by * rows + i
                row = T.cast(X[Place[token, e], bx * columns + j], T.float32)
                sums[i, j] += row * Weight[token, e]
        T.copy(sums, Out[by * rows, bx * columns])
    return Out
