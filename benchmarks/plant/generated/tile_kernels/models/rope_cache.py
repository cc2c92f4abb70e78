# ruff: noqa: ANN001, ANN201, D103
"""Keys turned by their positions and written to the slots of a cache."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def rope_cache(Key, Cos, Sin, Position, Slot):
    tokens, heads, dim, half, places = T.const("tokens, heads, dim, half, places")
    Key: T.Tensor((tokens, heads, dim), T.bfloat16)
    Cos: T.Tensor((places, half), T.float32)
    Sin: T.Tensor((places, half), T.float32)
    Position: T.Tensor((tokens,), T.int32)
    Slot: T.Tensor((tokens,), T.int32)
    Cache = T.empty((tokens, heads, dim), T.bfloat16)
    rows = 8

    with T.Kernel(T.ceildiv(tokens, rows), heads, threads=64) as (bx, head):
        for i, j in T.Parallel(rows, half):
            token = bx * rows + i
            if token < tokens:
                at, to = Position[token], Slot[token]
                one = T.cast(Key[token, head, j], T.float32)
                two = T.cast(Key[token, head, half + j], T.float32)
                Cache[to, head, j] = one * Cos[at, j] - two * Sin[at, j]
                Cache[to, head, half + j] = two * Cos[at, j] + one * Sin[at, j]
    return Cache
