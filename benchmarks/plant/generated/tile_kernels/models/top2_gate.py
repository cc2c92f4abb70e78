# ruff: noqa: ANN001, ANN201, D103
"""Weights of the two experts that each token goes to, in a row of all experts."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def top2_gate(Logits):
    M, E = T.const("M, E")
    Logits: T.Tensor((M, E), T.float32)
    Gates = T.empty((M, E), T.float32)
    rows = 32

    with T.Kernel(T.ceildiv(M, rows), threads=128) as block:
        held = T.alloc_fragment((rows, E), T.float32)
        rest = T.alloc_fragment((rows, E), T.float32)
        first = T.alloc_fragment((rows,), T.float32)
        second = T.alloc_fragment((rows,), T.float32)

        T.copy(Logits[block * rows, 0], held)
        T.reduce_max(held, first, dim=1)
        for i, j in T.Parallel(rows, E):
            rest[i, j] = T.if_then_else(held[i, j] == first[i], -1e30, held[i, j])
        T.reduce_max(rest, second, dim=1)
        for i, j in T.Parallel(rows, E):
            weight = 1.0 / (1.0 + T.__exp2((second[i] - first[i]) * 1.44269504))
            other = T.if_then_else(held[i, j] == second[i], 1.0 - weight, 0.0)
            rest[i, j] = T.if_then_else(held[i, j] == first[i], weight, other)
        T.copy(rest, Gates[block * rows, 0])
    return Gates
