# ruff: noqa: ANN001, ANN201, D103
"""A convolution with three by three taps of images whose channels lie together."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def conv3x3(X, W):
    batch, H, Wd, C, F = T.const("batch, H, Wd, C, F")
    X: T.Tensor((batch, H, Wd, C), T.float16)
    W: T.Tensor((9, C, F), T.float16)
    Y = T.empty((batch, H - 2, Wd - 2, F), T.float16)
    pixels, features, depth = 128, 128, 64
    wide, high = Wd - 2, H - 2

    with T.Kernel(T.ceildiv(F, features), T.ceildiv(wide * high, pixels), batch, threads=256) as (
        bx,
        by,
        b,
    ):
        patch = T.alloc_shared((pixels, depth), T.float16)
        taps = T.alloc_shared((depth, features), T.float16)
        sums = T.alloc_fragment((pixels, features), T.float32)

        T.clear(sums)
        for step in T.Pipelined(9 * C // depth, num_stages=3):
            tap, channel = step // (C // depth), step % (C // depth) * depth
            for i, j in T.Parallel(pixels, depth):
                at = by * pixels + i
                row, column = at // wide + tap // 3, at % wide + tap % 3
                patch[i, j] = T.if_then_else(at < wide * high, X[b, row, column, channel + j], 0)
            T.copy(W[tap, channel, bx * features], taps)
            T.gemm(patch, taps, sums)
        for i, j in T.Parallel(pixels, features):
            at = by * pixels + i
            if at < wide * high:
                Y[b, at // wide, at % wide, bx * features + j] = sums[i, j]
    return Y
