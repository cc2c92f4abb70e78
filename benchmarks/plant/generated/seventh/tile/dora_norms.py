# ruff: noqa: ANN001, ANN201, D103
"""Lengths of the rows of weights with an adapter of low rank added, without the sum in memory."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def dora_norms(W, Down, Up, scaling: float = 0.5):
    N, K, R = T.const("N, K, R")
    W: T.Tensor((N, K), T.bfloat16)
    Down: T.Tensor((R, K), T.bfloat16)
    Up: T.Tensor((N, R), T.bfloat16)
    Norm = T.empty((N,), T.float32)
    bn, bk = 64, 128

    with T.Kernel(T.ceildiv(N, bn), threads=128) as row:
        w = T.alloc_shared((bn, bk), T.bfloat16)
        down = T.alloc_shared((R, bk), T.bfloat16)
        up = T.alloc_shared((bn, R), T.bfloat16)
        low = T.alloc_fragment((bn, bk), T.float32)
        square = T.alloc_fragment((bn, bk), T.float32)
        norm = T.alloc_fragment((bn,), T.float32)

        T.copy(Up[row * bn, 0], up)
        T.clear(square)
        for k in T.Pipelined(T.ceildiv(K, bk), num_stages=3):
            T.copy(W[row * bn, k * bk], w)
            T.copy(Down[0, k * bk], down)
            T.gemm(up, down, low, clear_accum=True)
            for i, j in T.Parallel(bn, bk):
                both = T.cast(w[i, j], T.float32) + scaling * low[i, j]
                square[i, j] += both * both
        T.reduce_sum(square, norm, dim=1)
        for i in T.Parallel(bn):
            norm[i] = T.sqrt(norm[i])
        T.copy(norm, Norm[row * bn])
    return Norm
