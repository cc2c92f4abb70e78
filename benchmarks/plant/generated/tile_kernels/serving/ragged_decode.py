# ruff: noqa: ANN001, ANN201, D103
"""A new token's attention to the keys of its own sequence, of which each has another number."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ragged_decode(Q, K, V, Length):
    batch, groups, length, dim = T.const("batch, groups, length, dim")
    Q: T.Tensor((batch, groups, 16, dim), T.bfloat16)
    K: T.Tensor((batch, groups, length, dim), T.bfloat16)
    V: T.Tensor((batch, groups, length, dim), T.bfloat16)
    Length: T.Tensor((batch,), T.int32)
    Out = T.empty((batch, groups, 16, dim), T.bfloat16)
    heads, keys = 16, 64
    scale = 1.44269504 / dim**0.5

    with T.Kernel(groups, batch, threads=128) as (group, b):
        query = T.alloc_shared((heads, dim), T.bfloat16)
        key = T.alloc_shared((keys, dim), T.bfloat16)
        value = T.alloc_shared((keys, dim), T.bfloat16)
        scores = T.alloc_fragment((heads, keys), T.float32)
        weights = T.alloc_fragment((heads, keys), T.bfloat16)
        out = T.alloc_fragment((heads, dim), T.float32)
        top = T.alloc_fragment((heads,), T.float32)
        fade = T.alloc_fragment((heads,), T.float32)
        total = T.alloc_fragment((heads,), T.float32)
        part = T.alloc_fragment((heads,), T.float32)

        T.copy(Q[b, group, 0:heads, :], query)
        T.fill(top, -1e30)
        T.clear(total)
        T.clear(out)
        for k in T.Pipelined(T.ceildiv(Length[b], keys), num_stages=2):
            T.copy(K[b, group, k * keys : (k + 1) * keys, :], key)
            T.copy(V[b, group, k * keys : (k + 1) * keys, :], value)
            T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(heads, keys):
                scores[i, j] = T.if_then_else(k * keys + j < Length[b], scores[i, j], -1e30)
            T.copy(top, fade)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(heads, keys):
                scores[i, j] = T.__exp2((scores[i, j] - top[i]) * scale)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(heads):
                fade[i] = T.__exp2((fade[i] - top[i]) * scale)
                total[i] = total[i] * fade[i] + part[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(heads, dim):
                out[i, j] *= fade[i]
            T.gemm(weights, value, out)
        for i, j in T.Parallel(heads, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[b, group, 0:heads, :])
    return Out
