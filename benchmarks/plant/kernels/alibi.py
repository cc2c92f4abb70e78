# ruff: noqa: ANN001, ANN201, D103
"""Attention with a bias for each key, as masks of padding and distances have it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def alibi(Q, K, V, Bias):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Bias: T.Tensor((heads, length), T.float32)
    Out = T.empty((heads, length, dim), T.bfloat16)
    rows, columns, width = 128, 128, dim
    scale = 1.44269504 / dim**0.5

    with T.Kernel(T.ceildiv(length, rows), heads, threads=256) as (bx, by):
        Q_shared = T.alloc_shared((rows, width), T.bfloat16)
        K_shared = T.alloc_shared((columns, width), T.bfloat16)
        V_shared = T.alloc_shared((columns, width), T.bfloat16)
        bias = T.alloc_shared((columns,), T.float32)
        scores = T.alloc_fragment((rows, columns), T.float32)
        weights = T.alloc_fragment((rows, columns), T.bfloat16)
        out = T.alloc_fragment((rows, width), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        correction = T.alloc_fragment((rows,), T.float32)
        tile_sum = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.copy(Q[by, bx * rows : (bx + 1) * rows, 0:width], Q_shared)
        T.clear(out)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))
        for k in T.Pipelined(T.ceildiv(length, columns), num_stages=2):
            T.copy(K[by, k * columns : (k + 1) * columns, 0:width], K_shared)
            T.copy(Bias[by, k * columns : (k + 1) * columns], bias)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = scores[i, j] * scale + bias[j]
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(rows):
                correction[i] = T.__exp2(before[i] - top[i])
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = T.__exp2(scores[i, j] - top[i])
            T.reduce_sum(scores, tile_sum, dim=1)
            for i in T.Parallel(rows):
                total[i] = total[i] * correction[i] + tile_sum[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(rows, width):
                out[i, j] *= correction[i]
            T.copy(V[by, k * columns : (k + 1) * columns, 0:width], V_shared)
            T.gemm(weights, V_shared, out)
        for i, j in T.Parallel(rows, width):
            out[i, j] /= total[i]
        T.copy(out, Out[by, bx * rows : (bx + 1) * rows, 0:width])
    return Out
