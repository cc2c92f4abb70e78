# ruff: noqa: ANN001, ANN201, D103
"""Motion between two frames of a video: the best of 81 places for each square of 16 pixels."""

import tileprof
import tileprof.lang as T

SIDE = 16
REACH = 4


@tileprof.jit
def motion_search(Now, Before, squares: int = 8):
    H, W = T.const("H, W")
    Now: T.Tensor((H, W), T.uint8)
    Before: T.Tensor((H, W), T.uint8)
    Best = T.empty((H // SIDE, W // SIDE), T.int32)
    wide = squares * SIDE

    with T.Kernel(T.ceildiv(W, wide), H // SIDE, threads=256) as (bx, by):
        own = T.alloc_shared((SIDE, wide), T.int32)
        area = T.alloc_shared((SIDE + 2 * REACH, wide + 2 * REACH), T.int32)
        apart = T.alloc_fragment((squares, SIDE * SIDE), T.int32)
        cost = T.alloc_fragment((squares,), T.int32)
        best = T.alloc_fragment((squares,), T.int32)

        for r, c in T.Parallel(SIDE, wide):
            x = T.min(bx * wide + c, W - 1)
            own[r, c] = T.cast(Now[by * SIDE + r, x], T.int32)
        for r, c in T.Parallel(SIDE + 2 * REACH, wide + 2 * REACH):
            y = T.clamp(by * SIDE + r - REACH, 0, H - 1)
            x = T.clamp(bx * wide + c - REACH, 0, W - 1)
            area[r, c] = T.cast(Before[y, x], T.int32)
        T.fill(best, 1 << 30)
        for dy in T.serial(2 * REACH + 1):
            for dx in T.serial(2 * REACH + 1):
                for s, p in T.Parallel(squares, SIDE * SIDE):
                    r, c = p // SIDE, s * SIDE + p % SIDE
                    apart[s, p] = T.abs(own[r, c] - area[r + dy, c + dx])
                T.reduce_sum(apart, cost, dim=1)
                for s in T.Parallel(squares):
                    place = dy * (2 * REACH + 1) + dx
                    best[s] = T.min(best[s], cost[s] * 128 + place)
        T.copy(best, Best[by, bx * squares : (bx + 1) * squares])
    return Best
