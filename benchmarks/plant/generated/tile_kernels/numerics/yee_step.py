# ruff: noqa: ANN001, ANN201, D103
"""A step of light in a plane: the electric field by the curl of the magnetic one."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def yee_step(E, Hx, Hy, Medium):
    H, W = T.const("H, W")
    E: T.Tensor((H, W), T.float32)
    Hx: T.Tensor((H, W), T.float32)
    Hy: T.Tensor((H, W), T.float32)
    Medium: T.Tensor((H, W), T.float32)
    Out = T.empty((H, W), T.float32)
    rows, columns = 8, 128

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=128) as (bx, by):
        up = T.alloc_shared((rows, columns), T.float32)
        across = T.alloc_shared((rows + 1, columns), T.float32)

        T.copy(Hx[by * rows, bx * columns], across)
        T.copy(Hy[by * rows, bx * columns], up)
        for i, j in T.Parallel(rows, columns):
            y, x = by * rows + i, bx * columns + j
            right = T.if_then_else(x + 1 < W, Hy[y, x + 1], 0.0)
            curl = right - up[i, j] - across[i + 1, j] + across[i, j]
            Out[y, x] = E[y, x] + curl * Medium[y, x]
    return Out
