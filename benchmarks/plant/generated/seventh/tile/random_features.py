# ruff: noqa: ANN001, ANN201, D103
"""Positive random features of keys, whose products stand for softmax: Performer's kernel."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def random_features(X, Omega, block_M: int = 128, block_F: int = 128):
    M, D, F = T.const("M, D, F")
    X: T.Tensor((M, D), T.bfloat16)
    Omega: T.Tensor((F, D), T.bfloat16)
    Phi = T.empty((M, F), T.bfloat16)
    block_D = 64

    with T.Kernel(T.ceildiv(F, block_F), T.ceildiv(M, block_M), threads=256) as (pid_f, pid_m):
        x = T.alloc_shared((block_M, block_D), T.bfloat16)
        omega = T.alloc_shared((block_F, block_D), T.bfloat16)
        acc = T.alloc_fragment((block_M, block_F), T.float32)
        square = T.alloc_fragment((block_M, block_D), T.float32)
        norm = T.alloc_fragment((block_M,), T.float32)

        T.clear(acc)
        T.clear(square)
        for d in T.Pipelined(T.ceildiv(D, block_D), num_stages=2):
            T.copy(X[pid_m * block_M, d * block_D], x)
            T.copy(Omega[pid_f * block_F, d * block_D], omega)
            for i, j in T.Parallel(block_M, block_D):
                square[i, j] += T.cast(x[i, j], T.float32) * T.cast(x[i, j], T.float32)
            T.gemm(x, omega, acc, transpose_B=True)
        T.reduce_sum(square, norm, dim=1)
        for i, j in T.Parallel(block_M, block_F):
            acc[i, j] = T.exp(acc[i, j] - 0.5 * norm[i]) + 1e-4
        T.copy(acc, Phi[pid_m * block_M, pid_f * block_F])
    return Phi
