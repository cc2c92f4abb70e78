# ruff: noqa: ANN001, ANN201, D103
"""Attention of 64 guessed tokens to what came before, and to their own ancestors in a tree."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def tree_attention(Q, K, V, Tree):
    batch, heads, length, dim = T.const("batch, heads, length, dim")
    Q: T.Tensor((batch, heads, 64, dim), T.bfloat16)
    K: T.Tensor((batch, heads, length, dim), T.bfloat16)
    V: T.Tensor((batch, heads, length, dim), T.bfloat16)
    Tree: T.Tensor((batch, 64, 2), T.int32)
    Out = T.empty((batch, heads, 64, dim), T.bfloat16)
    tokens, columns = 64, 64
    scale = 1.44269504 / dim**0.5

    with T.Kernel(heads, batch, threads=128) as (head, b):
        query = T.alloc_shared((tokens, dim), T.bfloat16)
        key = T.alloc_shared((columns, dim), T.bfloat16)
        value = T.alloc_shared((columns, dim), T.bfloat16)
        ancestors = T.alloc_shared((tokens, 2), T.int32)
        scores = T.alloc_fragment((tokens, columns), T.float32)
        weights = T.alloc_fragment((tokens, columns), T.bfloat16)
        out = T.alloc_fragment((tokens, dim), T.float32)
        top = T.alloc_fragment((tokens,), T.float32)
        fade = T.alloc_fragment((tokens,), T.float32)
        total = T.alloc_fragment((tokens,), T.float32)
        part = T.alloc_fragment((tokens,), T.float32)

        T.copy(Q[b, head, 0:tokens, :], query)
        T.copy(Tree[b, 0:tokens, :], ancestors)
        T.fill(top, -1e30)
        T.clear(total)
        T.clear(out)
        for k in T.Pipelined(length // columns, num_stages=2):
            T.copy(K[b, head, k * columns : (k + 1) * columns, :], key)
            T.copy(V[b, head, k * columns : (k + 1) * columns, :], value)
            T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
            if k == length // columns - 1:
                for i, j in T.Parallel(tokens, columns):
                    seen = (ancestors[i, j // 32] >> (j % 32)) & 1
                    scores[i, j] = T.if_then_else(seen == 1, scores[i, j], -1e30)
            T.copy(top, fade)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(tokens, columns):
                scores[i, j] = T.__exp2((scores[i, j] - top[i]) * scale)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(tokens):
                fade[i] = T.__exp2((fade[i] - top[i]) * scale)
                total[i] = total[i] * fade[i] + part[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(tokens, dim):
                out[i, j] *= fade[i]
            T.gemm(weights, value, out)
        for i, j in T.Parallel(tokens, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[b, head, 0:tokens, :])
    return Out
