# ruff: noqa: ANN001, ANN201, D103
"""The cross entropy of each row and its target, lanes side by side along a row."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cross_entropy(X, Target):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Target: T.Tensor((M,), T.int32)
    Loss = T.empty((M,), T.float32)
    rows, lanes = 8, 128

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        tile = T.alloc_shared((rows, N), T.float32)
        tops = T.alloc_fragment((rows, lanes), T.float32)
        sums = T.alloc_fragment((rows, lanes), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.copy(X[block * rows, 0], tile)
        T.fill(tops, -T.infinity(T.float32))
        T.clear(sums)
        for j in T.serial(N // lanes):
            for i, lane in T.Parallel(rows, lanes):
                tops[i, lane] = T.max(tops[i, lane], tile[i, j * lanes + lane])
        T.reduce_max(tops, top, dim=1)
        for j in T.serial(N // lanes):
            for i, lane in T.Parallel(rows, lanes):
                sums[i, lane] += T.exp2((tile[i, j * lanes + lane] - top[i]) * 1.44269504)
        T.reduce_sum(sums, total, dim=1)
        for i in T.Parallel(rows):
            total[i] = T.log(total[i]) + top[i]
            Loss[block * rows + i] = total[i] - tile[i, Target[block * rows + i]]
    return Loss
