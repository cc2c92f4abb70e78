# ruff: noqa: ANN001, ANN201, D103
"""Attention whose scores cannot leave the band from -30 to 30."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def capped_attention(Q, K, V):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Out = T.empty((heads, length, dim), T.bfloat16)
    rows, columns = 128, 64
    scale = 1.44269504 / 15.0 / dim**0.5

    with T.Kernel(T.ceildiv(length, rows), heads, threads=256) as (bx, by):
        query = T.alloc_shared((rows, dim), T.bfloat16)
        key = T.alloc_shared((columns, dim), T.bfloat16)
        value = T.alloc_shared((columns, dim), T.bfloat16)
        scores = T.alloc_fragment((rows, columns), T.float32)
        weights = T.alloc_fragment((rows, columns), T.bfloat16)
        out = T.alloc_fragment((rows, dim), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.copy(Q[by, bx * rows : (bx + 1) * rows, :], query)
        T.clear(out)
        T.clear(total)
        for k in T.Pipelined(length // columns, num_stages=2):
            T.copy(K[by, k * columns : (k + 1) * columns, :], key)
            T.copy(V[by, k * columns : (k + 1) * columns, :], value)
            T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                capped = 1.0 - 2.0 / (1.0 + T.__exp2(scores[i, j] * scale))
                scores[i, j] = T.__exp2(capped * 43.2808512)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(rows):
                total[i] += part[i]
            T.copy(scores, weights)
            T.gemm(weights, value, out)
        for i, j in T.Parallel(rows, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[by, bx * rows : (bx + 1) * rows, :])
    return Out
