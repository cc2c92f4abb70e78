# ruff: noqa: ANN001, ANN201, D103
"""A convolution over time with three taps, every other step left out, then a GELU."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def conv1d_stem(X, W):
    batch, length, C, F = T.const("batch, length, C, F")
    X: T.Tensor((batch, length, C), T.float16)
    W: T.Tensor((3, C, F), T.float16)
    Y = T.empty((batch, (length - 1) // 2, F), T.float16)
    steps, features, depth = 128, 128, 64
    times = (length - 1) // 2

    with T.Kernel(T.ceildiv(F, features), T.ceildiv(times, steps), batch, threads=256) as (
        bx,
        by,
        b,
    ):
        left = T.alloc_shared((steps, depth), T.float16)
        right = T.alloc_shared((depth, features), T.float16)
        sums = T.alloc_fragment((steps, features), T.float32)

        T.clear(sums)
        for k in T.Pipelined(3 * C // depth, num_stages=3):
            tap, channel = k // (C // depth), k % (C // depth) * depth
            for i, j in T.Parallel(steps, depth):
                left[i, j] = X[b, (by * steps + i) * 2 + tap, channel + j]
            T.copy(W[tap, channel : channel + depth, bx * features : (bx + 1) * features], right)
            T.gemm(left, right, sums)
        for i, j in T.Parallel(steps, features):
            inner = sums[i, j] * 0.79788456 * (sums[i, j] * sums[i, j] * 0.044715 + 1.0)
            sums[i, j] = sums[i, j] / (1.0 + T.__exp2(inner * -2.88539008))
        T.copy(sums, Y[b, by * steps : (by + 1) * steps, bx * features : (bx + 1) * features])
    return Y
