# ruff: noqa: ANN001, ANN201, D103
"""Scores of the best local alignments of pairs of sequences, with gaps that grow."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def smith_waterman(X, Y):
    batch, length = T.const("batch, length")
    X: T.Tensor((batch, length), T.int32)
    Y: T.Tensor((batch, length), T.int32)
    Score = T.empty((batch,), T.int32)
    opened, longer = 5, 1

    with T.Kernel(batch, threads=128) as b:
        x = T.alloc_shared((length,), T.int32)
        y = T.alloc_shared((length,), T.int32)
        best = T.alloc_shared((3, length), T.int32)
        across = T.alloc_shared((2, length), T.int32)
        down = T.alloc_shared((2, length), T.int32)
        most = T.alloc_fragment((length,), T.int32)
        top = T.alloc_fragment((1,), T.int32)

        T.copy(X[b, 0:length], x)
        T.copy(Y[b, 0:length], y)
        T.clear(best)
        T.fill(across, -1000)
        T.fill(down, -1000)
        T.clear(most)
        for d in T.serial(2 * length - 1):
            for i in T.Parallel(length):
                if i <= d and d - i < length:
                    above = T.max(i - 1, 0)
                    left = T.if_then_else(d > i, best[(d + 2) % 3, i], 0)
                    left_gap = T.if_then_else(d > i, across[(d + 1) % 2, i], -1000)
                    up = T.if_then_else(i > 0, best[(d + 2) % 3, above], 0)
                    up_gap = T.if_then_else(i > 0, down[(d + 1) % 2, above], -1000)
                    corner = T.if_then_else(i > 0 and d > i, best[(d + 1) % 3, above], 0)
                    gap = T.max(left - opened, left_gap - longer)
                    other = T.max(up - opened, up_gap - longer)
                    same = T.if_then_else(x[i] == y[d - i], 3, -2)
                    score = T.max(T.max(corner + same, 0), T.max(gap, other))
                    across[d % 2, i] = gap
                    down[d % 2, i] = other
                    best[d % 3, i] = score
                    most[i] = T.max(most[i], score)
        T.reduce_max(most, top, dim=0)
        Score[b] = top[0]
    return Score
