# ruff: noqa: ANN001, ANN201, D103
"""The part of a state-space layer inside of chunks: products that fade with distance in time."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ssd_chunk(C, B, X, Fade):
    heads, length, dim = T.const("heads, length, dim")
    C: T.Tensor((heads, length, dim), T.bfloat16)
    B: T.Tensor((heads, length, dim), T.bfloat16)
    X: T.Tensor((heads, length, dim), T.bfloat16)
    Fade: T.Tensor((heads, length), T.float32)
    Y = T.empty((heads, length, dim), T.bfloat16)
    chunk = 64

    with T.Kernel(T.ceildiv(length, chunk), heads, threads=128) as (n, h):
        c = T.alloc_shared((chunk, dim), T.bfloat16)
        b = T.alloc_shared((chunk, dim), T.bfloat16)
        x = T.alloc_shared((chunk, dim), T.bfloat16)
        fade = T.alloc_shared((chunk,), T.float32)
        score = T.alloc_fragment((chunk, chunk), T.float32)
        weight = T.alloc_fragment((chunk, chunk), T.bfloat16)
        y = T.alloc_fragment((chunk, dim), T.float32)

        T.copy(C[h, n * chunk : (n + 1) * chunk, :], c)
        T.copy(B[h, n * chunk : (n + 1) * chunk, :], b)
        T.copy(X[h, n * chunk : (n + 1) * chunk, :], x)
        T.copy(Fade[h, n * chunk : (n + 1) * chunk], fade)
        T.cumsum(fade, dim=0)
        T.gemm(c, b, score, transpose_B=True, clear_accum=True)
        for i, j in T.Parallel(chunk, chunk):
            kept = T.exp(T.min(fade[i] - fade[j], 0.0))
            score[i, j] = T.if_then_else(i >= j, score[i, j] * kept, 0.0)
        T.copy(score, weight)
        T.gemm(weight, x, y, clear_accum=True)
        T.copy(y, Y[h, n * chunk : (n + 1) * chunk, :])
    return Y
