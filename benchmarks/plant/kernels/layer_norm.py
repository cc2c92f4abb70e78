# ruff: noqa: ANN001, ANN201, D103
"""Rows less their means, by their standard deviations."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def layer_norm(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    rows, lanes = 16, 16

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        tile = T.alloc_shared((rows, N), T.float32)
        part = T.alloc_fragment((rows, lanes), T.float32)
        squares = T.alloc_fragment((rows, lanes), T.float32)
        mean = T.alloc_fragment((rows,), T.float32)
        square = T.alloc_fragment((rows,), T.float32)

        T.copy(X[block * rows, 0], tile)
        T.clear(part)
        T.clear(squares)
        for j in T.serial(N // lanes):
            for i, lane in T.Parallel(rows, lanes):
                x = tile[i, j * lanes + lane]
                part[i, lane] += x
                squares[i, lane] += x * x
        T.reduce_sum(part, mean, dim=1)
        T.reduce_sum(squares, square, dim=1)
        for i in T.Parallel(rows):
            mean[i] /= N
            square[i] = T.rsqrt(square[i] / N - mean[i] * mean[i] + 1e-6)
        for i, j in T.Parallel(rows, N):
            Y[block * rows + i, j] = (tile[i, j] - mean[i]) * square[i]
    return Y
