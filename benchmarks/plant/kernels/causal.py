# ruff: noqa: ANN001, ANN201, D103
"""Causal attention whose heads share keys and values in groups, as decoders have it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def causal(Q, K, V):
    heads, groups, length, dim = T.const("heads, groups, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((groups, length, dim), T.bfloat16)
    V: T.Tensor((groups, length, dim), T.bfloat16)
    Out = T.empty((heads, length, dim), T.bfloat16)
    rows, columns, width = 128, 128, dim
    scale, shared_by = 1.44269504 / dim**0.5, heads // groups

    with T.Kernel(heads, T.ceildiv(length, rows), threads=256) as (head, turn):
        Q_shared = T.alloc_shared((rows, width), T.bfloat16)
        K_shared = T.alloc_shared((columns, width), T.bfloat16)
        V_shared = T.alloc_shared((columns, width), T.bfloat16)
        scores = T.alloc_fragment((rows, columns), T.float32)
        weights = T.alloc_fragment((rows, columns), T.bfloat16)
        out = T.alloc_fragment((rows, width), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        part = T.alloc_fragment((rows,), T.float32)

        by, group = T.ceildiv(length, rows) - 1 - turn, head // shared_by
        T.copy(Q[head, by * rows : (by + 1) * rows, 0:width], Q_shared)
        T.clear(out)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))
        for k in T.Pipelined(T.ceildiv((by + 1) * rows, columns), num_stages=2):
            T.copy(K[group, k * columns : (k + 1) * columns, 0:width], K_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                seen = k * columns + j <= by * rows + i
                scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = T.__exp2(scores[i, j] * scale - top[i] * scale)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(rows):
                before[i] = T.__exp2(before[i] * scale - top[i] * scale)
                total[i] = total[i] * before[i] + part[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(rows, width):
                out[i, j] *= before[i]
            T.copy(V[group, k * columns : (k + 1) * columns, 0:width], V_shared)
            T.gemm(weights, V_shared, out)
        for i, j in T.Parallel(rows, width):
            out[i, j] /= total[i]
        T.copy(out, Out[head, by * rows : (by + 1) * rows, 0:width])
    return Out
