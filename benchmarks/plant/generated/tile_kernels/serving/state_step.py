# ruff: noqa: ANN001, ANN201, D103
"""A step of a state-space model while it generates: all states, and below them the output."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def state_step(State, X, Step, Rate, B, C):
    batch, S, D = T.const("batch, S, D")
    State: T.Tensor((batch, S, D), T.float32)
    X: T.Tensor((batch, D), T.bfloat16)
    Step: T.Tensor((batch, D), T.float32)
    Rate: T.Tensor((S, D), T.float32)
    B: T.Tensor((batch, S), T.float32)
    C: T.Tensor((batch, S), T.float32)
    Out = T.empty((batch, S + 1, D), T.float32)
    channels = 256

    with T.Kernel(T.ceildiv(D, channels), batch, threads=128) as (block, b):
        x = T.alloc_fragment((channels,), T.float32)
        step = T.alloc_fragment((channels,), T.float32)
        y = T.alloc_fragment((channels,), T.float32)

        T.copy(X[b, block * channels : (block + 1) * channels], x)
        T.copy(Step[b, block * channels : (block + 1) * channels], step)
        T.clear(y)
        for s in T.serial(S):
            for i in T.Parallel(channels):
                at = block * channels + i
                kept = State[b, s, at] * T.__exp2(step[i] * Rate[s, at])
                state = kept + step[i] * B[b, s] * x[i]
                Out[b, s, at] = state
                y[i] += state * C[b, s]
        T.copy(y, Out[b, S, block * channels : (block + 1) * channels])
    return Out
