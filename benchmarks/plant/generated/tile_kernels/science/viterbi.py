# ruff: noqa: ANN001, ANN201, D103
"""Scores of the best paths to each state after all steps of a hidden Markov chain."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def viterbi(Emit, Change):
    batch, length, states = T.const("batch, length, states")
    Emit: T.Tensor((batch, length, states), T.float32)
    Change: T.Tensor((states, states), T.float32)
    Out = T.empty((batch, states), T.float32)
    steps = 32

    with T.Kernel(batch, threads=64) as b:
        emit = T.alloc_shared((steps, states), T.float32)
        change = T.alloc_fragment((states, states), T.float32)
        paths = T.alloc_fragment((states, states), T.float32)
        best = T.alloc_fragment((states,), T.float32)
        score = T.alloc_shared((states,), T.float32)

        T.copy(Change, change)
        T.clear(score)
        for k in T.Pipelined(length // steps, num_stages=2):
            T.copy(Emit[b, k * steps : (k + 1) * steps, :], emit)
            for t in T.serial(steps):
                for i, j in T.Parallel(states, states):
                    paths[i, j] = score[j] + change[i, j]
                T.reduce_max(paths, best, dim=1)
                for i in T.Parallel(states):
                    score[i] = best[i] + emit[t, i]
        T.copy(score, Out[b, 0:states])
    return Out
