# ruff: noqa: ANN001, ANN201, D103
"""Features of points from tables of several levels, by the four corners around each."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def hash_encode(Points, Table):
    N, levels, size = T.const("N, levels, size")
    Points: T.Tensor((2, N), T.float32)
    Table: T.Tensor((levels, size, 2), T.float32)
    Out = T.empty((levels, 2, N), T.float32)
    points = 256

    with T.Kernel(T.ceildiv(N, points), levels, threads=128) as (block, level):
        for i in T.Parallel(points):
            x = Points[0, block * points + i] * T.cast(16 << level, T.float32)
            y = Points[1, block * points + i] * T.cast(16 << level, T.float32)
            left, low = T.cast(T.floor(x), T.int32), T.cast(T.floor(y), T.int32)
            one, two = 0.0, 0.0
            for corner in list(range(4)):
                across, up = corner % 2, corner // 2
                place = ((left + across) ^ ((low + up) * 40503)) & (size - 1)
                near = x - T.floor(x) if across else 1.0 - x + T.floor(x)
                weight = near * (y - T.floor(y) if up else 1.0 - y + T.floor(y))
                one = one + Table[level, place, 0] * weight
                two = two + Table[level, place, 1] * weight
            Out[level, 0, block * points + i] = one
            Out[level, 1, block * points + i] = two
    return Out
