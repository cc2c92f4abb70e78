# ruff: noqa: ANN001, ANN201, D103
"""The middle one of each three by three pixels, by least and greatest of pairs."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def median_filter(X):
    H, W = T.const("H, W")
    X: T.Tensor((H, W), T.float32)
    Y = T.empty((H - 2, W - 2), T.float32)
    rows, columns = 4, 256

    with T.Kernel(T.ceildiv(W - 2, columns), T.ceildiv(H - 2, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            low, mid, high = [], [], []
            for line in list(range(3)):
                a, b, c = X[y + line, x], X[y + line, x + 1], X[y + line, x + 2]
                less, more = T.min(a, b), T.max(a, b)
                low.append(T.min(less, c))
                mid.append(T.max(less, T.min(more, c)))
                high.append(T.max(more, c))
            lows = T.max(low[0], T.max(low[1], low[2]))
            mids = T.max(T.min(mid[0], mid[1]), T.min(T.max(mid[0], mid[1]), mid[2]))
            highs = T.min(high[0], T.min(high[1], high[2]))
            Y[y, x] = T.max(T.min(lows, mids), T.min(T.max(lows, mids), highs))
    return Y
