# ruff: noqa: ANN001, ANN201, D103
"""A slice of a body from its shadows: each pixel adds up what rays of all directions saw of it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def back_projection(Shadow, Cos, Sin, X, Y):
    angles, bins, H, W = T.const("angles, bins, H, W")
    Shadow: T.Tensor((angles, bins), T.float32)
    Cos: T.Tensor((angles,), T.float32)
    Sin: T.Tensor((angles,), T.float32)
    X: T.Tensor((W,), T.float32)
    Y: T.Tensor((H,), T.float32)
    Slice = T.empty((H, W), T.float32)
    rows, columns = 16, 32

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), threads=128) as (bx, by):
        total = T.alloc_fragment((rows, columns), T.float32)

        T.clear(total)
        for a in T.serial(angles):
            for j, i in T.Parallel(rows, columns):
                x = X[T.min(bx * columns + i, W - 1)]
                y = Y[T.min(by * rows + j, H - 1)]
                at = x * Cos[a] + y * Sin[a] + 0.5 * bins
                low = T.floor(at)
                k = T.clamp(T.cast(low, T.int32), 0, bins - 2)
                left, right = Shadow[a, k], Shadow[a, k + 1]
                total[j, i] += left + (right - left) * (at - low)
        for j, i in T.Parallel(rows, columns):
            if by * rows + j < H and bx * columns + i < W:
                Slice[by * rows + j, bx * columns + i] = total[j, i] / angles
    return Slice
