# ruff: noqa: ANN001, ANN201, D103
"""A convolution of three by three taps, each channel on its own, with bias and ReLU6."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def depthwise_conv(X, W, Bias):
    batch, high, wide, C = T.const("batch, high, wide, C")
    X: T.Tensor((batch, high, wide, C), T.bfloat16)
    W: T.Tensor((9, C), T.float32)
    Bias: T.Tensor((C,), T.float32)
    Y = T.empty((batch, high - 2, wide - 2, C), T.bfloat16)
    pixels, channels = 4, 256

    with T.Kernel(
        T.ceildiv(C, channels), T.ceildiv(wide - 2, pixels), (high - 2) * batch, threads=128
    ) as (bx, by, line):
        b, y = line // (high - 2), line % (high - 2)
        for i, j in T.Parallel(pixels, channels):
            x, c = by * pixels + i, bx * channels + j
            total = Bias[c]
            for tap in list(range(9)):
                at = T.cast(X[b, y + tap // 3, x + tap % 3, c], T.float32)
                total = total + at * W[tap, c]
            Y[b, y, x, c] = T.clamp(total, 0.0, 6.0)
    return Y
