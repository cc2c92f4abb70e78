# ruff: noqa: ANN001, ANN201, D103
"""A network of three layers of 64 neurons for each of many points, as radiance fields have it."""

import tileprof
import tileprof.lang as T

WIDTH = 64


@tileprof.jit
def tiny_mlp(X, W1, W2, W3, block_M: int = 128):
    M = T.const("M")
    X: T.Tensor((M, WIDTH), T.float16)
    W1: T.Tensor((WIDTH, WIDTH), T.float16)
    W2: T.Tensor((WIDTH, WIDTH), T.float16)
    W3: T.Tensor((WIDTH, WIDTH), T.float16)
    Y = T.empty((M, WIDTH), T.float16)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bm:
        h = T.alloc_shared((block_M, WIDTH), T.float16)
        w1 = T.alloc_shared((WIDTH, WIDTH), T.float16)
        w2 = T.alloc_shared((WIDTH, WIDTH), T.float16)
        w3 = T.alloc_shared((WIDTH, WIDTH), T.float16)
        acc = T.alloc_fragment((block_M, WIDTH), T.float32)

        T.copy(X[bm * block_M, 0], h)
        T.copy(W1, w1)
        T.copy(W2, w2)
        T.copy(W3, w3)
        T.gemm(h, w1, acc, clear_accum=True)
        for i, j in T.Parallel(block_M, WIDTH):
            h[i, j] = T.cast(T.max(acc[i, j], 0.0), T.float16)
        T.gemm(h, w2, acc, clear_accum=True)
        for i, j in T.Parallel(block_M, WIDTH):
            h[i, j] = T.cast(T.max(acc[i, j], 0.0), T.float16)
        T.gemm(h, w3, acc, clear_accum=True)
        T.copy(acc, Y[bm * block_M, 0])
    return Y
