# ruff: noqa: ANN001, ANN201, D103
"""Numbers rounded to eight bits as training of quantised models sees them: 32 by a power of two."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def mx_quantise(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.bfloat16)
    groups = 64

    with T.Kernel(T.ceildiv(N, groups * 32), M, threads=256) as (block, row):
        x = T.alloc_fragment((groups, 32), T.float32)
        top = T.alloc_fragment((groups,), T.float32)
        scale = T.alloc_fragment((groups,), T.float32)

        for g, j in T.Parallel(groups, 32):
            x[g, j] = X[row, (block * groups + g) * 32 + j]
        T.reduce_absmax(x, top, dim=1)
        for g in T.Parallel(groups):
            power = (T.reinterpret(top[g], T.int32) >> 23) - 8
            scale[g] = T.reinterpret(T.max(power, 1) << 23, T.float32)
        for g, j in T.Parallel(groups, 32):
            small = T.clamp(x[g, j] / scale[g], -448.0, 448.0)
            kept = T.cast(T.cast(small, T.float8_e4m3), T.float32)
            Y[row, (block * groups + g) * 32 + j] = kept * scale[g]
    return Y
