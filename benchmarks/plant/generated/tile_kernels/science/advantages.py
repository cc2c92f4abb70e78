# ruff: noqa: ANN001, ANN201, D103
"""Advantages of actions, from the last step of each run back to its first."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def advantages(Reward, Value, Done):
    steps, N = T.const("steps, N")
    Reward: T.Tensor((steps, N), T.float32)
    Value: T.Tensor((steps, N), T.float32)
    Done: T.Tensor((steps, N), T.int8)
    Out = T.empty((steps, N), T.float32)
    runs = 256

    with T.Kernel(T.ceildiv(N, runs), threads=128) as block:
        later = T.alloc_fragment((runs,), T.float32)
        value = T.alloc_fragment((runs,), T.float32)

        T.clear(later)
        T.clear(value)
        for back in T.serial(steps):
            for i in T.Parallel(runs):
                step, run = steps - 1 - back, block * runs + i
                keep = T.if_then_else(Done[step, run] > 0, 0.0, 1.0)
                apart = Reward[step, run] + value[i] * keep * 0.99 - Value[step, run]
                later[i] = apart + later[i] * keep * 0.9405
                value[i] = Value[step, run]
                Out[step, run] = later[i]
    return Out
