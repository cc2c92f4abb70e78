# ruff: noqa: ANN001, ANN201, D103
"""Attention whose queries and keys are bytes, with a scale for each block of 64 of them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def sage_attention(Q, K, V, ScaleQ, ScaleK):
    heads, length, dim, blocks = T.const("heads, length, dim, blocks")
    Q: T.Tensor((heads, length, dim), T.int8)
    K: T.Tensor((heads, length, dim), T.int8)
    V: T.Tensor((heads, length, dim), T.float16)
    ScaleQ: T.Tensor((heads, blocks), T.float32)
    ScaleK: T.Tensor((heads, blocks), T.float32)
    O = T.empty((heads, length, dim), T.float16)  # noqa: E741
    block_M, block_N = 64, 64

    with T.Kernel(T.ceildiv(length, block_M), heads, threads=128) as (bm, h):
        q = T.alloc_shared((block_M, dim), T.int8)
        k = T.alloc_shared((block_N, dim), T.int8)
        v = T.alloc_shared((block_N, dim), T.float16)
        whole = T.alloc_fragment((block_M, block_N), T.int32)
        score = T.alloc_fragment((block_M, block_N), T.float32)
        p = T.alloc_fragment((block_M, block_N), T.float16)
        acc = T.alloc_fragment((block_M, dim), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)

        T.copy(Q[h, bm * block_M : (bm + 1) * block_M, :], q)
        T.clear(acc)
        T.clear(total)
        T.fill(top, -1e30)
        for n in T.Pipelined(T.ceildiv(length, block_N), num_stages=2):
            T.copy(K[h, n * block_N : (n + 1) * block_N, :], k)
            T.copy(V[h, n * block_N : (n + 1) * block_N, :], v)
            T.gemm(q, k, whole, transpose_B=True, clear_accum=True)
            scale = ScaleQ[h, bm] * ScaleK[h, n] * 1.44269504
            for i, j in T.Parallel(block_M, block_N):
                score[i, j] = T.cast(whole[i, j], T.float32) * scale
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
