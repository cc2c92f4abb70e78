# ruff: noqa: ANN001, ANN201, D103
"""Log likelihoods of transcripts by connectionist temporal classification: the forward pass."""

import tileprof
import tileprof.lang as T

NEG = -1e30


def log_add(a, b, c):
    top = T.max(T.max(a, b), c)
    return top + T.log(T.exp(a - top) + T.exp(b - top) + T.exp(c - top))


@tileprof.jit
def ctc_alpha(LogProb, Labels):
    batch, frames, symbols, letters = T.const("batch, frames, symbols, letters")
    LogProb: T.Tensor((batch, frames, symbols), T.float32)
    Labels: T.Tensor((batch, letters), T.int32)
    LogLike = T.empty((batch,), T.float32)
    states = 2 * letters + 1

    with T.Kernel(batch, threads=128) as b:
        symbol = T.alloc_shared((states,), T.int32)
        jump = T.alloc_shared((states,), T.int32)
        alpha = T.alloc_shared((2, states), T.float32)
        frame = T.alloc_shared((symbols,), T.float32)

        for s in T.Parallel(states):
            symbol[s] = T.if_then_else(s % 2 == 1, Labels[b, s // 2], 0)
            before = Labels[b, T.max(s // 2 - 1, 0)]
            differs = s % 2 == 1 and s > 1 and before != Labels[b, s // 2]
            jump[s] = T.if_then_else(differs, 1, 0)
            alpha[0, s] = T.if_then_else(s == 0, 0.0, NEG)
        for t in T.Pipelined(frames, num_stages=4):
            T.copy(LogProb[b, t, 0:symbols], frame)
            for s in T.Parallel(states):
                stay = alpha[t % 2, s]
                step = T.if_then_else(s > 0, alpha[t % 2, T.max(s - 1, 0)], NEG)
                skip = T.if_then_else(jump[s] == 1, alpha[t % 2, T.max(s - 2, 0)], NEG)
                alpha[(t + 1) % 2, s] = log_add(stay, step, skip) + frame[symbol[s]]
        blank, letter = alpha[frames % 2, states - 1], alpha[frames % 2, states - 2]
        LogLike[b] = log_add(blank, letter, NEG)
    return LogLike
