# ruff: noqa: ANN001, ANN201, D103
"""Means of each 64 keys, by which attention chooses what to look at."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def pool_keys(K):
    heads, length, dim = T.const("heads, length, dim")
    K: T.Tensor((heads, length, dim), T.bfloat16)
    Out = T.empty((heads, length // 64, dim), T.float32)
    groups = 2

    with T.Kernel(length // 64 // groups, heads, threads=128) as (bx, head):
        held = T.alloc_shared((64, dim), T.bfloat16)
        wide = T.alloc_fragment((64, dim), T.float32)
        mean = T.alloc_fragment((dim,), T.float32)

        for group in T.Pipelined(groups, num_stages=2):
            at = bx * groups + group
            T.copy(K[head, at * 64 : (at + 1) * 64, :], held)
            for i, j in T.Parallel(64, dim):
                wide[i, j] = T.cast(held[i, j], T.float32) * 0.015625
            T.reduce_sum(wide, mean, dim=0)
            for j in T.Parallel(dim):
                Out[head, at, j] = mean[j]
    return Out
