# ruff: noqa: ANN001, ANN201, D103
"""Travel times of a wave front: one upwind update of each point of a plane."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def eikonal(Time, Slowness):
    H, W = T.const("H, W")
    Time: T.Tensor((H, W), T.float32)
    Slowness: T.Tensor((H, W), T.float32)
    Out = T.empty((H, W), T.float32)
    rows, columns = 8, 128

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            if y < H and x < W:
                right = T.if_then_else(x + 1 < W, Time[y, T.min(x + 1, W - 1)], 1e9)
                left = T.if_then_else(x > 0, Time[y, T.max(x - 1, 0)], 1e9)
                below = T.if_then_else(y + 1 < H, Time[T.min(y + 1, H - 1), x], 1e9)
                above = T.if_then_else(y > 0, Time[T.max(y - 1, 0), x], 1e9)
                a, b = T.min(left, right), T.min(above, below)
                step = Slowness[y, x]
                apart = a - b
                root = T.sqrt(T.max(2.0 * step * step - apart * apart, 0.0))
                both, one = (a + b + root) * 0.5, T.min(a, b) + step
                made = T.if_then_else(T.abs(apart) < step, both, one)
                Out[y, x] = T.min(Time[y, x], made)
    return Out
