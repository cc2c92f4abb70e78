# ruff: noqa: ANN001, ANN201, D103
"""Linear attention inside chunks of 128 steps: products under a falling triangle."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def chunk_attention(Q, K, V, Sums):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Sums: T.Tensor((heads, length), T.float32)
    Out = T.empty((heads, length, dim), T.bfloat16)
    steps, turns = 128, 4

    with T.Kernel(T.ceildiv(length, steps * turns), heads, threads=256) as (bx, by):
        query = T.alloc_shared((steps, dim), T.bfloat16)
        key = T.alloc_shared((steps, dim), T.bfloat16)
        value = T.alloc_shared((steps, dim), T.bfloat16)
        scores = T.alloc_fragment((steps, steps), T.float32)
        weights = T.alloc_fragment((steps, steps), T.bfloat16)
        out = T.alloc_fragment((steps, dim), T.float32)

        for turn in T.Pipelined(turns, num_stages=2):
            at = (bx * turns + turn) * steps
            T.copy(Q[by, at : at + steps, :], query)
            T.copy(K[by, at : at + steps, :], key)
            T.copy(V[by, at : at + steps, :], value)
            T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(steps, steps):
                fallen = T.__exp2(T.min(Sums[by, at + i] - Sums[by, at + j], 0.0))
                scores[i, j] = T.if_then_else(j <= i, scores[i, j] * fallen, 0.0)
            T.copy(scores, weights)
            T.gemm(weights, value, out, clear_accum=True)
            T.copy(out, Out[by, at : at + steps, :])
    return Out
