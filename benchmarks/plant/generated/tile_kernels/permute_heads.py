# ruff: noqa: ANN001, ANN201, D103
"""From tokens with their heads to heads with their tokens, scaled."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def permute_heads(X):
    batch, length, heads, dim = T.const("batch, length, heads, dim")
    X: T.Tensor((batch, length, heads, dim), T.bfloat16)
    Y = T.empty((batch, heads, length, dim), T.bfloat16)
    tokens, columns = 32, 128

    with T.Kernel(T.ceildiv(length, tokens), heads, batch, threads=256) as (bx, head, b):
        for i, j in T.Parallel(tokens, columns):
            x = T.cast(X[b, bx * tokens + i, head, j], T.float32)
            Y[b, head, bx * tokens + i, j] = x * 0.125
    return Y
