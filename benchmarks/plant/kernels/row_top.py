# ruff: noqa: ANN001, ANN201, D103
"""The greatest of each row, a thread a row, through shared memory."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def row_top(X):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M,), T.float32)
    rows, columns = 128, 64
    stride = columns + 1

    with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
        tile = T.alloc_shared((rows * stride,), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        T.fill(top, -T.infinity(T.float32))
        for k in T.serial(N // columns):
            for i, j in T.Parallel(rows, columns):
                tile[i * stride + j] = X[bx * rows + i, k * columns + j]
            for j in T.serial(columns):
                for i in T.Parallel(rows):
                    top[i] = T.max(top[i], tile[i * stride + j])
        T.copy(top, Y[bx * rows])
    return Y
