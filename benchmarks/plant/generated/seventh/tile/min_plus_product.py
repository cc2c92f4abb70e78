# ruff: noqa: ANN001, ANN201, D103
"""Shortest ways of two parts: the product of two matrices of distances in (min, +)."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def min_plus_product(A, B):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.float32)
    B: T.Tensor((K, N), T.float32)
    C = T.empty((M, N), T.float32)
    TM, TN, TK = 64, 128, 16

    with T.Kernel(T.ceildiv(N, TN), T.ceildiv(M, TM), threads=256) as (bn, bm):
        a = T.alloc_shared((TM, TK), T.float32)
        b = T.alloc_shared((TK, TN), T.float32)
        c = T.alloc_fragment((TM, TN), T.float32)

        T.fill(c, 1e30)
        for step in T.Pipelined(K // TK, num_stages=2):
            T.copy(A[bm * TM, step * TK], a)
            T.copy(B[step * TK, bn * TN], b)
            for k in T.serial(TK):
                for i, j in T.Parallel(TM, TN):
                    c[i, j] = T.min(c[i, j], a[i, k] + b[k, j])
        T.copy(c, C[bm * TM, bn * TN])
    return C
