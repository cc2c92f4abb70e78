# ruff: noqa: ANN001, ANN201, D103
"""How alike two images are, in squares of eight by eight: means, variances, covariance."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ssim(X, Y):
    H, W = T.const("H, W")
    X: T.Tensor((H, W), T.float32)
    Y: T.Tensor((H, W), T.float32)
    Out = T.empty((H // 8, W // 8), T.float32)
    rows, columns = 2, 64

    with T.Kernel(T.ceildiv(W, 8 * columns), T.ceildiv(H, 8 * rows), threads=128) as (bx, by):
        x = T.alloc_shared((8 * rows, 8 * columns), T.float32)
        y = T.alloc_shared((8 * rows, 8 * columns), T.float32)

        T.copy(X[by * 8 * rows, bx * 8 * columns], x)
        T.copy(Y[by * 8 * rows, bx * 8 * columns], y)
        for i, j in T.Parallel(rows, columns):
            one, two, squares, others, both = 0.0, 0.0, 0.0, 0.0, 0.0
            for tap in T.serial(64):
                a, b = x[i * 8 + tap // 8, j * 8 + tap % 8], y[i * 8 + tap // 8, j * 8 + tap % 8]
                one = one + a
                two = two + b
                squares = squares + a * a
                others = others + b * b
                both = both + a * b
            one, two = one / 64.0, two / 64.0
            spread = squares / 64.0 - one * one + others / 64.0 - two * two
            shared = both / 64.0 - one * two
            means = (2.0 * one * two + 1e-4) / (one * one + two * two + 1e-4)
            Out[by * rows + i, bx * columns + j] = means * (2.0 * shared + 9e-4) / (spread + 9e-4)
    return Out
