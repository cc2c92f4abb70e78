# ruff: noqa: ANN001, ANN201, D103
"""What each of the five filters of PNG leaves of each line of a picture, as sums of sizes."""

import tileprof
import tileprof.lang as T


def signed(byte):
    low = byte & 255
    return T.min(low, 256 - low)


@tileprof.jit
def png_filters(Line):
    lines, N = T.const("lines, N")
    Line: T.Tensor((lines, N), T.uint8)
    Cost = T.empty((lines, 5), T.int32)
    span, pixel = 1024, 4

    with T.Kernel(lines, threads=256) as y:
        cost = T.alloc_fragment((5, span), T.int32)
        total = T.alloc_fragment((5,), T.int32)

        T.clear(cost)
        for part in T.serial(T.ceildiv(N, span)):
            for i in T.Parallel(span):
                at = part * span + i
                if at < N:
                    x = T.cast(Line[y, at], T.int32)
                    a, b, c = 0, 0, 0
                    if at >= pixel:
                        a = T.cast(Line[y, at - pixel], T.int32)
                    if y > 0:
                        b = T.cast(Line[y - 1, at], T.int32)
                    if y > 0 and at >= pixel:
                        c = T.cast(Line[y - 1, at - pixel], T.int32)
                    pa, pb, pc = T.abs(b - c), T.abs(a - c), T.abs(a + b - 2 * c)
                    rest = T.if_then_else(pb <= pc, b, c)
                    paeth = T.if_then_else(pa <= pb and pa <= pc, a, rest)
                    cost[0, i] += signed(x)
                    cost[1, i] += signed(x - a)
                    cost[2, i] += signed(x - b)
                    cost[3, i] += signed(x - ((a + b) >> 1))
                    cost[4, i] += signed(x - paeth)
        T.reduce_sum(cost, total, dim=1)
        T.copy(total, Cost[y, 0:5])
    return Cost
