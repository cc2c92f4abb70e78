# ruff: noqa: ANN001, ANN201, D103
"""A step of two substances that react and diffuse on a torus."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def gray_scott(U, V):
    H, W = T.const("H, W")
    U: T.Tensor((H, W), T.float32)
    V: T.Tensor((H, W), T.float32)
    Out = T.empty((2, H, W), T.float32)
    rows, columns = 8, 128
    feed, kill, spread = 0.055, 0.062, 0.5

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=256) as (bx, by):
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            if y < H and x < W:
                below, above = (y + 1) % H, (y + H - 1) % H
                right, left = (x + 1) % W, (x + W - 1) % W
                u, v = U[y, x], V[y, x]
                u_around = U[below, x] + U[above, x] + U[y, right] + U[y, left] - 4.0 * u
                v_around = V[below, x] + V[above, x] + V[y, right] + V[y, left] - 4.0 * v
                rate = u * v * v
                Out[0, y, x] = u + 0.2 * u_around - rate + feed * (1.0 - u)
                Out[1, y, x] = v + 0.2 * spread * v_around + rate - (feed + kill) * v
    return Out
