# ruff: noqa: ANN001, ANN201, D103
"""Patches of 16 by 16 pixels of four bands, each by one product with all its weights."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def patch_embed(X, W, Bias):
    lines, across, F = T.const("lines, across, F")
    X: T.Tensor((lines, 16, across, 64), T.bfloat16)
    W: T.Tensor((1024, F), T.bfloat16)
    Bias: T.Tensor((F,), T.float32)
    Y = T.empty((lines * across, F), T.bfloat16)
    patches, features, width = 128, 128, 64

    with T.Kernel(T.ceildiv(F, features), T.ceildiv(lines * across, patches), threads=256) as (
        bx,
        by,
    ):
        left = T.alloc_shared((patches, width), T.bfloat16)
        right = T.alloc_shared((width, features), T.bfloat16)
        sums = T.alloc_fragment((patches, features), T.float32)

        T.clear(sums)
        for k in T.Pipelined(16, num_stages=3):
            for i, j in T.Parallel(patches, width):
                at = by * patches + i
                left[i, j] = X[at // across, k, at % across, j]
            T.copy(W[k * width, bx * features], right)
            T.gemm(left, right, sums)
        for i, j in T.Parallel(patches, features):
            sums[i, j] += Bias[bx * features + j]
        T.copy(sums, Y[by * patches, bx * features])
    return Y
