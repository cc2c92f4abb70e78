# ruff: noqa: ANN001, ANN201, D103
"""Causal attention without softmax: its weights decay by the gates between two tokens."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def retention(Q, K, V, Gate):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Gate: T.Tensor((heads, length), T.float32)
    Out = T.empty((heads, length, dim), T.bfloat16)
    rows, columns, width = 128, 128, dim

    with T.Kernel(heads, T.ceildiv(length, rows), threads=256) as (head, turn):
        Q_shared = T.alloc_shared((rows, width), T.bfloat16)
        K_shared = T.alloc_shared((columns, width), T.bfloat16)
        V_shared = T.alloc_shared((columns, width), T.bfloat16)
        gate = T.alloc_shared((columns,), T.float32)
        gates = T.alloc_fragment((rows,), T.float32)
        scores = T.alloc_fragment((rows, columns), T.float32)
        weights = T.alloc_fragment((rows, columns), T.bfloat16)
        out = T.alloc_fragment((rows, width), T.float32)

        by = T.ceildiv(length, rows) - 1 - turn
        T.copy(Q[head, by * rows : (by + 1) * rows, 0:width], Q_shared)
        T.copy(Gate[head, by * rows : (by + 1) * rows], gates)
        T.clear(out)
        for k in T.Pipelined(T.ceildiv((by + 1) * rows, columns), num_stages=2):
            T.copy(K[head, k * columns : (k + 1) * columns, 0:width], K_shared)
            T.copy(Gate[head, k * columns : (k + 1) * columns], gate)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(rows, columns):
                decay = T.__exp2(gates[i] - gate[j])
                seen = k * columns + j <= by * rows + i
                scores[i, j] = T.if_then_else(seen, scores[i, j] * decay, 0.0)
            T.copy(scores, weights)
            T.copy(V[head, k * columns : (k + 1) * columns, 0:width], V_shared)
            T.gemm(weights, V_shared, out)
        T.copy(out, Out[head, by * rows : (by + 1) * rows, 0:width])
    return Out
