# ruff: noqa: ANN001, ANN201, D103
"""Each plane of an image by its own mean and spread, then a leaky ReLU."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def instance_norm(X, W, Bias):
    planes, N, C = T.const("planes, N, C")
    X: T.Tensor((planes, N), T.float32)
    W: T.Tensor((C,), T.float32)
    Bias: T.Tensor((C,), T.float32)
    Y = T.empty((planes, N), T.float32)

    with T.Kernel(planes, threads=256) as plane:
        held = T.alloc_fragment((1, N), T.float32)
        square = T.alloc_fragment((1, N), T.float32)
        mean = T.alloc_fragment((1,), T.float32)
        spread = T.alloc_fragment((1,), T.float32)

        T.copy(X[plane, 0], held)
        T.reduce_sum(held, mean, dim=1)
        for i, j in T.Parallel(1, N):
            held[i, j] = held[i, j] - mean[i] / N
            square[i, j] = held[i, j] * held[i, j]
        T.reduce_sum(square, spread, dim=1)
        for i in T.Parallel(1):
            spread[i] = T.rsqrt(spread[i] / N + 1e-5) * W[plane % C]
        for i, j in T.Parallel(1, N):
            made = held[i, j] * spread[i] + Bias[plane % C]
            held[i, j] = T.max(made, made * 0.2)
        T.copy(held, Y[plane, 0])
    return Y
