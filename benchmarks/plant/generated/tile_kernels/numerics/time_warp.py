# ruff: noqa: ANN001, ANN201, D103
"""Distances of pairs of series whose times may be stretched, one diagonal after the other."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def time_warp(X, Y):
    batch, length = T.const("batch, length")
    X: T.Tensor((batch, length), T.float32)
    Y: T.Tensor((batch, length), T.float32)
    Out = T.empty((batch,), T.float32)

    with T.Kernel(batch, threads=128) as b:
        x = T.alloc_shared((length,), T.float32)
        y = T.alloc_shared((length,), T.float32)
        cost = T.alloc_shared((3, length), T.float32)

        T.copy(X[b, 0:length], x)
        T.copy(Y[b, 0:length], y)
        T.fill(cost, 1e30)
        for d in T.serial(2 * length - 1):
            for i in T.Parallel(length):
                if i <= d and d - i < length:
                    apart = x[i] - y[d - i]
                    left = T.if_then_else(d > i, cost[(d + 2) % 3, i], 1e30)
                    below = T.if_then_else(i > 0, cost[(d + 2) % 3, T.max(i - 1, 0)], 1e30)
                    inner = i > 0 and d > i
                    corner = T.if_then_else(inner, cost[(d + 1) % 3, T.max(i - 1, 0)], 1e30)
                    least = T.min(T.min(left, below), corner)
                    cost[d % 3, i] = apart * apart + T.if_then_else(d == 0, 0.0, least)
        Out[b] = cost[(2 * length - 2) % 3, length - 1]
    return Out
