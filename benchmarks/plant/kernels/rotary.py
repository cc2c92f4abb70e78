# ruff: noqa: ANN001, ANN201, D103
"""Rotary embedding: both halves of a head's elements turned by the angles of their token."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def rotary(X, Cos, Sin):
    heads, tokens, dim, half = T.const("heads, tokens, dim, half")
    X: T.Tensor((heads, tokens, dim), T.bfloat16)
    Cos: T.Tensor((tokens, half), T.float32)
    Sin: T.Tensor((tokens, half), T.float32)
    Y = T.empty((heads, tokens, dim), T.bfloat16)
    rows = 32

    with T.Kernel(heads, T.ceildiv(tokens, rows), threads=256) as (head, block):
        for i, j in T.Parallel(rows, half):
            token = block * rows + i
            x = T.cast(X[head, token, j], T.float32)
            y = T.cast(X[head, token, half + j], T.float32)
            Y[head, token, j] = x * Cos[token, j] - y * Sin[token, j]
            Y[head, token, half + j] = y * Cos[token, j] + x * Sin[token, j]
    return Y
