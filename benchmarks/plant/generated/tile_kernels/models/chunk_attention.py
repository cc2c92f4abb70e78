# ruff: noqa: ANN001, ANN201, D103
"""Linear attention inside chunks of 128 steps: products under a falling triangle."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def chunk_attention(Q, K, V, Decay):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Decay: T.Tensor((heads, length), T.float32)
    Out = T.empty((heads, length, dim), T.bfloat16)
    steps = 128

    with T.Kernel(T.ceildiv(length, steps), heads, threads=256) as (bx, by):
        query = T.alloc_shared((steps, dim), T.bfloat16)
        key = T.alloc_shared((steps, dim), T.bfloat16)
        value = T.alloc_shared((steps, dim), T.bfloat16)
        sums = T.alloc_shared((steps,), T.float32)
        scores = T.alloc_fragment((steps, steps), T.float32)
        weights = T.alloc_fragment((steps, steps), T.bfloat16)
        out = T.alloc_fragment((steps, dim), T.float32)

        T.copy(Q[by, bx * steps : (bx + 1) * steps, :], query)
        T.copy(K[by, bx * steps : (bx + 1) * steps, :], key)
        T.copy(V[by, bx * steps : (bx + 1) * steps, :], value)
        T.copy(Decay[by, bx * steps : (bx + 1) * steps], sums)
        T.cumsum(sums)
        T.gemm(query, key, scores, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(steps, steps):
            fallen = T.__exp2(T.min(sums[i] - sums[j], 0.0))
            scores[i, j] = T.if_then_else(j <= i, scores[i, j] * fallen, 0.0)
        T.copy(scores, weights)
        T.gemm(weights, value, out, clear_accum=True)
        T.copy(out, Out[by, bx * steps : (bx + 1) * steps, :])
    return Out
