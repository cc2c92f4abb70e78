# ruff: noqa: ANN001, ANN201, D103
"""Causal attention whose scores fall with distance, by a slope for each head."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def alibi_attention(Q, K, V, Slope):
    heads, length, dim = T.const("heads, length, dim")
    Q: T.Tensor((heads, length, dim), T.bfloat16)
    K: T.Tensor((heads, length, dim), T.bfloat16)
    V: T.Tensor((heads, length, dim), T.bfloat16)
    Slope: T.Tensor((heads,), T.float32)
    O = T.empty((heads, length, dim), T.bfloat16)  # noqa: E741
    block_M, block_N = 64, 64
    log2e = 1.44269504

    with T.Kernel(T.ceildiv(length, block_M), heads, threads=128) as (bm, h):
        q = T.alloc_shared((block_M, dim), T.bfloat16)
        k = T.alloc_shared((block_N, dim), T.bfloat16)
        v = T.alloc_shared((block_N, dim), T.bfloat16)
        score = T.alloc_fragment((block_M, block_N), T.float32)
        p = T.alloc_fragment((block_M, block_N), T.bfloat16)
        acc = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)

        T.copy(Q[h, bm * block_M : (bm + 1) * block_M, :], q)
        T.clear(acc)
        T.clear(total)
        T.fill(top, -1e30)
        for n in T.Pipelined(bm + 1, num_stages=2):
            T.copy(K[h, n * block_N : (n + 1) * block_N, :], k)
            T.copy(V[h, n * block_N : (n + 1) * block_N, :], v)
            T.gemm(q, k, score, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(block_M, block_N):
                behind = bm * block_M + i - n * block_N - j
                near = score[i, j] * (dim**-0.5 * log2e)
                near = near - Slope[h] * log2e * T.cast(behind, T.float32)
                score[i, j] = T.if_then_else(behind >= 0, near, -1e30)
            T.copy(top, before)
            T.reduce_max(score, top, dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                score[i, j] = T.exp2(score[i, j] - top[i])
            T.reduce_sum(score, part, dim=1)
            for i in T.Parallel(block_M):
                before[i] = T.exp2(before[i] - top[i])
                total[i] = total[i] * before[i] + part[i]
            for i, d in T.Parallel(block_M, dim):
                acc[i, d] *= before[i]
            T.copy(score, p)
            T.gemm(p, v, acc)
        for i, d in T.Parallel(block_M, dim):
            acc[i, d] /= total[i]
        T.copy(acc, O[h, bm * block_M : (bm + 1) * block_M, :])
    return O
