# ruff: noqa: ANN001, ANN201, D103
"""A step of Adam: the new weights, means and mean squares, one below the other."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def adam(W, G, Mean, Square):
    M, N = T.const("M, N")
    W: T.Tensor((M, N), T.float32)
    G: T.Tensor((M, N), T.float32)
    Mean: T.Tensor((M, N), T.float32)
    Square: T.Tensor((M, N), T.float32)
    Out = T.empty((3, M, N), T.float32)
    rows, columns = 2, 1024

    with T.Kernel(T.ceildiv(N, columns), T.ceildiv(M, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            row, column = by * rows + i, bx * columns + j
            grad = G[row, column]
            mean = Mean[row, column] * 0.9 + grad * 0.1
            square = T.abs(Square[row, column]) * 0.99 + grad * grad * 0.01
            Out[0, row, column] = W[row, column] - mean * T.rsqrt(square + 1e-8) * 0.001
            Out[1, row, column] = mean
            Out[2, row, column] = square
    return Out
