# ruff: noqa: ANN001, ANN201, D103
"""One half step of optimal transport: logarithms of what each row has to be scaled by."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def sinkhorn_rows(Cost, V):
    M, N = T.const("M, N")
    Cost: T.Tensor((M, N), T.float32)
    V: T.Tensor((N,), T.float32)
    Out = T.empty((M,), T.float32)
    rows, columns = 4, 1024

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        cost = T.alloc_shared((rows, columns), T.float32)
        score = T.alloc_fragment((rows, columns), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.fill(top, -1e30)
        T.clear(total)
        for k in T.Pipelined(N // columns, num_stages=2):
            T.copy(Cost[block * rows, k * columns], cost)
            for i, j in T.Parallel(rows, columns):
                score[i, j] = (V[k * columns + j] - cost[i, j]) * 1.44269504
            T.copy(top, before)
            T.reduce_max(score, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, columns):
                score[i, j] = T.__exp2(score[i, j] - top[i])
            T.reduce_sum(score, part, dim=1)
            for i in T.Parallel(rows):
                total[i] = total[i] * T.__exp2(before[i] - top[i]) + part[i]
        for i in T.Parallel(rows):
            Out[block * rows + i] = (top[i] + T.log2(total[i])) * -0.69314718
    return Out
