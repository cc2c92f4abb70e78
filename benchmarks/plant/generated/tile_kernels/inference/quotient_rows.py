# ruff: noqa: ANN001, ANN201, D103
"""Embeddings of many identifiers from two small tables: a row by the quotient, one by the rest."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def quotient_rows(Quotient, Rest, Id, Scale):
    Q, R, D, N = T.const("Q, R, D, N")
    Quotient: T.Tensor((Q, D), T.bfloat16)
    Rest: T.Tensor((R, D), T.bfloat16)
    Id: T.Tensor((N,), T.int32)
    Scale: T.Tensor((D,), T.float32)
    Out = T.empty((N, D), T.bfloat16)
    BLOCK_N = 32

    with T.Kernel(T.ceildiv(N, BLOCK_N), threads=128) as i_n:
        ids = T.alloc_shared((BLOCK_N,), T.int32)
        row = T.alloc_fragment((BLOCK_N, D), T.float32)
        square = T.alloc_fragment((BLOCK_N, D), T.float32)
        norm = T.alloc_fragment((BLOCK_N,), T.float32)

        T.copy(Id[i_n * BLOCK_N : (i_n + 1) * BLOCK_N], ids)
        for i, d in T.Parallel(BLOCK_N, D):
            high = T.cast(Quotient[ids[i] // R, d], T.float32)
            low = T.cast(Rest[ids[i] % R, d], T.float32)
            row[i, d] = high * low
            square[i, d] = row[i, d] * row[i, d]
        T.reduce_sum(square, norm, dim=1)
        for i, d in T.Parallel(BLOCK_N, D):
            row[i, d] = row[i, d] * T.rsqrt(norm[i] / D + 1e-6) * Scale[d]
        T.copy(row, Out[i_n * BLOCK_N : (i_n + 1) * BLOCK_N, 0:D])
    return Out
