# ruff: noqa: ANN001, ANN201, D103
"""A convolution that doubles an image: each pixel becomes two by two."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def deconv(X, W):
    lines, wide, C, F = T.const("lines, wide, C, F")
    X: T.Tensor((lines, wide, C), T.float16)
    W: T.Tensor((4, C, F), T.float16)
    Y = T.empty((2 * lines, 2 * wide, F), T.float16)
    pixels, features, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(F, features) * 4, T.ceildiv(wide, pixels), lines, threads=256) as (
        bx,
        by,
        line,
    ):
        left = T.alloc_shared((pixels, depth), T.float16)
        right = T.alloc_shared((depth, features), T.float16)
        made = T.alloc_shared((pixels, features), T.float16)
        sums = T.alloc_fragment((pixels, features), T.float32)

        corner, first = bx % 4, bx // 4 * features
        T.clear(sums)
        for k in T.Pipelined(T.ceildiv(C, depth), num_stages=3):
            T.copy(X[line, by * pixels : (by + 1) * pixels, k * depth : (k + 1) * depth], left)
            T.copy(W[corner, k * depth : (k + 1) * depth, first : first + features], right)
            T.gemm(left, right, sums)
        T.copy(sums, made)
        for i, j in T.Parallel(pixels, features):
            x = by * pixels + i
            if x < wide:
                Y[2 * line + corner // 2, 2 * x + corner % 2, first + j] = made[i, j]
    return Y
