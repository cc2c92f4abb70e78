# ruff: noqa: ANN001, ANN201, D103
"""One step of heat through a solid: each point and its six neighbours."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def heat3d(X):
    D, H, W = T.const("D, H, W")
    X: T.Tensor((D, H, W), T.float32)
    Y = T.empty((D - 2, H - 2, W - 2), T.float32)
    rows, columns = 8, 128

    with T.Kernel(T.ceildiv(W - 2, columns), T.ceildiv(H - 2, rows), D - 2, threads=256) as (
        bx,
        by,
        z,
    ):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            around = X[z, y + 1, x + 1] + X[z + 2, y + 1, x + 1]
            around = around + X[z + 1, y, x + 1] + X[z + 1, y + 2, x + 1]
            around = around + X[z + 1, y + 1, x] + X[z + 1, y + 1, x + 2]
            Y[z, y, x] = X[z + 1, y + 1, x + 1] * 0.4 + around * 0.1
    return Y
