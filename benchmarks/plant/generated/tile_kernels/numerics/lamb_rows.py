# ruff: noqa: ANN001, ANN201, D103
"""A step of descent whose length a row's weights give: their norm by that of the step."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lamb_rows(W, Grad, Mean, Square):
    M, N = T.const("M, N")
    W: T.Tensor((M, N), T.float32)
    Grad: T.Tensor((M, N), T.bfloat16)
    Mean: T.Tensor((M, N), T.float32)
    Square: T.Tensor((M, N), T.float32)
    Out = T.empty((M, N), T.float32)

    with T.Kernel(M, threads=256) as row:
        w = T.alloc_fragment((1, N), T.float32)
        step = T.alloc_fragment((1, N), T.float32)
        squares = T.alloc_fragment((1, N), T.float32)
        length = T.alloc_fragment((1,), T.float32)
        moved = T.alloc_fragment((1,), T.float32)

        T.copy(W[row : row + 1, :], w)
        for i, j in T.Parallel(1, N):
            grad = T.cast(Grad[row, j], T.float32)
            mean = Mean[row, j] * 0.9 + grad * 0.1
            square = Square[row, j] * 0.99 + grad * grad * 0.01
            step[i, j] = mean / (T.sqrt(square) + 1e-6) + w[i, j] * 0.01
        for i, j in T.Parallel(1, N):
            squares[i, j] = w[i, j] * w[i, j]
        T.reduce_sum(squares, length, dim=1)
        for i, j in T.Parallel(1, N):
            squares[i, j] = step[i, j] * step[i, j]
        T.reduce_sum(squares, moved, dim=1)
        for i, j in T.Parallel(1, N):
            trust = T.sqrt(length[i]) / T.sqrt(moved[i])
            Out[row, j] = w[i, j] - step[i, j] * trust * 0.01
    return Out
