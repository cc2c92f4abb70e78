# ruff: noqa: ANN001, ANN201, D103
"""Likelihoods of sequences under a hidden Markov model of 64 states, by the forward algorithm."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def hmm_forward(Step, Emit, Seen):
    symbols, length, batch = T.const("symbols, length, batch")
    Step: T.Tensor((64, 64), T.float16)
    Emit: T.Tensor((symbols, 64), T.float32)
    Seen: T.Tensor((length, batch), T.int32)
    Out = T.empty((batch,), T.float32)
    rows, states = 64, 64

    with T.Kernel(T.ceildiv(batch, rows), threads=128) as block:
        step = T.alloc_shared((states, states), T.float16)
        chance = T.alloc_shared((rows, states), T.float16)
        made = T.alloc_fragment((rows, states), T.float32)
        total = T.alloc_fragment((rows,), T.float32)
        likely = T.alloc_fragment((rows,), T.float32)

        T.copy(Step, step)
        T.fill(chance, 1.0 / states)
        T.clear(likely)
        for t in T.serial(length):
            T.gemm(chance, step, made, clear_accum=True)
            for i, j in T.Parallel(rows, states):
                made[i, j] *= Emit[Seen[t, block * rows + i], j]
            T.reduce_sum(made, total, dim=1)
            for i in T.Parallel(rows):
                likely[i] += T.log(total[i])
            for i, j in T.Parallel(rows, states):
                chance[i, j] = made[i, j] / total[i]
        T.copy(likely, Out[block * rows])
    return Out
