# ruff: noqa: ANN001, ANN201, D103
"""Places of tokens in the queues of their experts, within blocks of tokens, and queues' lengths."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def expert_slots(Expert, E: int = 64):
    M = T.const("M")
    Expert: T.Tensor((M,), T.int32)
    tokens = 128
    Slot = T.empty((T.ceildiv(M, tokens), tokens + E), T.int32)

    with T.Kernel(T.ceildiv(M, tokens), threads=128) as bt:
        chosen = T.alloc_shared((tokens,), T.int32)
        hot = T.alloc_shared((tokens, E), T.int32)

        T.copy(Expert[bt * tokens], chosen)
        for t, e in T.Parallel(tokens, E):
            real = bt * tokens + t < M
            hot[t, e] = T.if_then_else(real and chosen[t] == e, 1, 0)
        T.cumsum(hot, dim=0)
        for t in T.Parallel(tokens):
            Slot[bt, t] = hot[t, chosen[t]] - 1
        for e in T.Parallel(E):
            Slot[bt, tokens + e] = hot[tokens - 1, e]
    return Slot
