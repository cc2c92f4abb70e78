# ruff: noqa: ANN001, ANN201, D103
"""A convolution of four taps along time, one for each channel, then SiLU."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def causal_conv(X, W):
    batch, length, C = T.const("batch, length, C")
    X: T.Tensor((batch, length, C), T.bfloat16)
    W: T.Tensor((4, C), T.float32)
    Y = T.empty((batch, length, C), T.bfloat16)
    steps, channels = 16, 256

    with T.Kernel(T.ceildiv(C, channels), T.ceildiv(length, steps), batch, threads=256) as (
        bx,
        by,
        b,
    ):
        for i, j in T.Parallel(steps, channels):
            t, c = by * steps + i, bx * channels + j
            x3 = T.cast(X[b, t, c], T.float32) * W[3, c]
            x2 = T.if_then_else(t >= 1, T.cast(X[b, T.max(t - 1, 0), c], T.float32), 0.0)
            x1 = T.if_then_else(t >= 2, T.cast(X[b, T.max(t - 2, 0), c], T.float32), 0.0)
            x0 = T.if_then_else(t >= 3, T.cast(X[b, T.max(t - 3, 0), c], T.float32), 0.0)
            made = x3 + x2 * W[2, c] + x1 * W[1, c] + x0 * W[0, c]
            Y[b, t, c] = made / (1.0 + T.__exp2(made * -1.44269504))
    return Y
