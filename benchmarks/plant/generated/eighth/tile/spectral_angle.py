# ruff: noqa: ANN001, ANN201, D103
"""Angles between the spectra of pixels seen from above and those of known minerals."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def spectral_angle(X, Known, block_M: int = 128):
    M, F, K = T.const("M, F, K")
    X: T.Tensor((M, K), T.float16)
    Known: T.Tensor((F, K), T.float16)
    Angle = T.empty((M, F), T.float32)

    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bm:
        x = T.alloc_shared((block_M, K), T.float16)
        known = T.alloc_shared((F, K), T.float16)
        square = T.alloc_fragment((block_M, K), T.float32)
        norm = T.alloc_fragment((block_M,), T.float32)
        angle = T.alloc_fragment((block_M, F), T.float32)

        T.copy(X[bm * block_M, 0], x)
        T.copy(Known, known)
        T.gemm(x, known, angle, transpose_B=True, clear_accum=True)
        for i, k in T.Parallel(block_M, K):
            square[i, k] = T.cast(x[i, k], T.float32) * T.cast(x[i, k], T.float32)
        T.reduce_sum(square, norm, dim=1)
        for i in T.Parallel(block_M):
            norm[i] = T.rsqrt(T.max(norm[i], 1e-12))
        for i, f in T.Parallel(block_M, F):
            angle[i, f] = T.acos(T.clamp(angle[i, f] * norm[i], -1.0, 1.0))
        T.copy(angle, Angle[bm * block_M, 0])
    return Angle
