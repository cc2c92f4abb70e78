# ruff: noqa: ANN001, ANN201, D103
"""Attention whose weights are squares of what is positive, and need no normalisation."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def relu_attention(Q, K, V):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Out = T.empty((heads, length, dim), T.bfloat16)
    rows, keys = 128, 64
    scale = 1.0 / (dim**0.5 * 8.0)

    with T.Kernel(T.ceildiv(length, rows), heads, threads=256) as (block, head):
        query = T.alloc_shared((rows, dim), T.bfloat16)
        key = T.alloc_shared((keys, dim), T.bfloat16)
        value = T.alloc_shared((keys, dim), T.bfloat16)
        scores = T.alloc_fragment((rows, keys), T.float32)
        weights = T.alloc_fragment((rows, keys), T.bfloat16)
        out = T.alloc_fragment((rows, dim), T.float32)

        T.copy(Q[head, block * rows : (block + 1) * rows, :], query)
        T.clear(out)
        for k in T.Pipelined(T.ceildiv(length, keys), num_stages=2):
            T.copy(K[head, k * keys : (k + 1) * keys, :], key)
            T.copy(V[head, k * keys : (k + 1) * keys, :], value)
            T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, keys):
                kept = T.max(scores[i, j] * scale, 0.0)
                weights[i, j] = kept * kept
            T.gemm(weights, value, out)
        T.copy(out, Out[head, block * rows : (block + 1) * rows, :])
    return Out
