# ruff: noqa: ANN001, ANN201, D103
"""Sums of the vectors of each cluster, as a product with ones where a label fits."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def cluster_sums(X, Label, Sums):
    M, dim, codes = T.const("M, dim, codes")
    X: T.Tensor((M, dim), T.bfloat16)
    Label: T.Tensor((M,), T.int32)
    Sums: T.Tensor((codes, dim), T.float32)
    rows, columns, clusters, turns = 64, 128, 128, 32

    with T.Kernel(
        T.ceildiv(dim, columns),
        T.ceildiv(codes, clusters),
        T.ceildiv(M, rows * turns),
        threads=256,
    ) as (bx, by, bz):
        tile = T.alloc_shared((rows, columns), T.bfloat16)
        marks = T.alloc_shared((rows, clusters), T.bfloat16)
        sums = T.alloc_fragment((clusters, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(turns, num_stages=3):
            first = (bz * turns + k) * rows
            T.copy(X[first, bx * columns], tile)
            for i, j in T.Parallel(rows, clusters):
                fits = Label[first + i] == by * clusters + j
                marks[i, j] = T.if_then_else(fits, 1.0, 0.0)
            T.gemm(marks, tile, sums, transpose_A=True)
        T.atomic_add(Sums[by * clusters, bx * columns], sums)
