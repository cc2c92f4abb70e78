# ruff: noqa: ANN001, ANN201, D103
"""The sum of two rows by two indices: a token's and its position's."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def pair_gather(Tokens, Places, Token, Place):
    V, P, N, M = T.const("V, P, N, M")
    Tokens: T.Tensor((V, N), T.bfloat16)
    Places: T.Tensor((P, N), T.bfloat16)
    Token: T.Tensor((M,), T.int32)
    Place: T.Tensor((M,), T.int32)
    Out = T.empty((M, N), T.bfloat16)
    rows, columns = 4, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            value = T.cast(Tokens[Token[row], column], T.float32)
            Out[row, column] = value + T.cast(Places[Place[row], column], T.float32)
    return Out
