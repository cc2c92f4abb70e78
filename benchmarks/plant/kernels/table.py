# ruff: noqa: ANN001, ANN201, D103
"""A function of small integers by a table, which each block computes as a series."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def table(X):
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Y = T.empty((N,), T.float32)
    block, entries, terms = 8192, 512, 24
    lanes = 256

    with T.Kernel(T.ceildiv(N, block), threads=256) as bx:
        values = T.alloc_shared((entries,), T.float32)
        term = T.alloc_fragment((lanes,), T.float32)
        total = T.alloc_fragment((lanes,), T.float32)
        for part in T.serial(entries // lanes):
            for i in T.Parallel(lanes):
                term[i] = 1.0
                total[i] = 1.0
            for n in T.serial(terms):
                for i in T.Parallel(lanes):
                    term[i] *= T.cast(part * lanes + i, T.float32) / (512.0 * (n + 1))
                    total[i] += term[i]
            for i in T.Parallel(lanes):
                values[part * lanes + i] = total[i]
        for i in T.Parallel(block):
            Y[bx * block + i] = values[X[bx * block + i]]
    return Y
