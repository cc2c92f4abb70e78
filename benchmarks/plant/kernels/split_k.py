# ruff: noqa: ANN001, ANN201, D103
"""A product of few tiles and many turns, which blocks split along K and add up: A · Bᵀ."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def split_k(A, B, C):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), T.bfloat16)
    B: T.Tensor((N, K), T.bfloat16)
    C: T.Tensor((M, N), T.float32)
    rows, columns, depth = 128, 256, 64
    splits = 4
    turns = T.ceildiv(K, depth * splits)

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), splits, threads=256) as (bx, by, bz):
        A_shared = T.alloc_shared((rows, depth), T.bfloat16)
        B_shared = T.alloc_shared((columns, depth), T.bfloat16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(turns, num_stages=4):
            T.copy(A[by * rows, (bz * turns + k) * depth], A_shared)
            T.copy(B[bx * columns, (bz * turns + k) * depth], B_shared)
            T.gemm(A_shared, B_shared, sums, transpose_B=True)
        T.atomic_add(C[by * rows, bx * columns], sums)
