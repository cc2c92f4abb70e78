# ruff: noqa: ANN001, ANN201, D103
"""A round of value iteration: how much to save at each wealth and income, by what comes after."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def value_iteration(Value, Income, patience: float = 0.95, interest: float = 1.02):
    Z, A = T.const("Z, A")
    Value: T.Tensor((Z, A), T.float32)
    Income: T.Tensor((Z,), T.float32)
    Next = T.empty((Z, A), T.float32)
    block_A, block_S = 32, 64
    step = 0.01

    with T.Kernel(T.ceildiv(A, block_A), Z, threads=128) as (ba, z):
        after = T.alloc_shared((block_S,), T.float32)
        best = T.alloc_fragment((block_A, block_S), T.float32)
        top = T.alloc_fragment((block_A,), T.float32)

        T.fill(best, -1e30)
        for s in T.Pipelined(T.ceildiv(A, block_S), num_stages=2):
            T.copy(Value[z, s * block_S : (s + 1) * block_S], after)
            for a, k in T.Parallel(block_A, block_S):
                own = T.cast(ba * block_A + a, T.float32) * (step * interest) + Income[z]
                spent = own - T.cast(s * block_S + k, T.float32) * step
                worth = T.log(T.max(spent, 1e-6)) + patience * after[k]
                worth = T.if_then_else(s * block_S + k < A, worth, -1e30)
                best[a, k] = T.max(best[a, k], worth)
        T.reduce_max(best, top, dim=1)
        T.copy(top, Next[z, ba * block_A : (ba + 1) * block_A])
    return Next
