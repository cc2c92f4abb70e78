# ruff: noqa: ANN001, ANN201, D103
"""Attention to the last 512 keys, with a sink that takes part of each row's weight."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def window_attention(Q, K, V, Sink):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Sink: T.Tensor((heads,), T.float32)
    Out = T.empty((heads, length, dim), T.bfloat16)
    rows, columns, window = 128, 64, 512
    scale = 1.44269504 / dim**0.5

    with T.Kernel(T.ceildiv(length, rows), heads, threads=256) as (bx, by):
        query = T.alloc_shared((rows, dim), T.bfloat16)
        key = T.alloc_shared((columns, dim), T.bfloat16)
        value = T.alloc_shared((columns, dim), T.bfloat16)
        scores = T.alloc_fragment((rows, columns), T.float32)
        weights = T.alloc_fragment((rows, columns), T.bfloat16)
        out = T.alloc_fragment((rows, dim), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        first = T.max(bx * rows - window, 0) // columns
        last = T.ceildiv(T.min((bx + 1) * rows, length), columns)
        T.copy(Q[by, bx * rows : (bx + 1) * rows, :], query)
        T.clear(out)
        T.clear(total)
        T.fill(top, -1e30)
        for turn in T.Pipelined(last - first, num_stages=2):
            k = first + turn
            T.copy(K[by, k * columns : (k + 1) * columns, :], key)
            T.copy(V[by, k * columns : (k + 1) * columns, :], value)
            T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                behind = bx * rows + i - k * columns - j
                seen = T.all_of(behind >= 0, behind < window)
                scores[i, j] = T.if_then_else(seen, scores[i, j] * scale, -1e30)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = T.exp2(scores[i, j] - top[i])
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(rows):
                before[i] = T.exp2(before[i] - top[i])
                total[i] = total[i] * before[i] + part[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(rows, dim):
                out[i, j] *= before[i]
            T.gemm(weights, value, out)
        for i in T.Parallel(rows):
            total[i] += T.exp2(Sink[by] * 1.44269504 - top[i])
        for i, j in T.Parallel(rows, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[by, bx * rows : (bx + 1) * rows, :])
    return Out
