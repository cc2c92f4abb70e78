# ruff: noqa: ANN001, ANN201, D103
"""How many points of a scan are near each of many planes that were guessed of three of them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ransac_planes(Plane, Point, TP: int = 64, TQ: int = 512):
    H, N = T.const("H, N")
    Plane: T.Tensor((H, 4), T.float32)
    Point: T.Tensor((3, N), T.float32)
    Inliers = T.empty((H,), T.int32)
    threshold = 0.25

    with T.Kernel(T.ceildiv(H, TP), threads=256) as bh:
        plane = T.alloc_shared((TP, 4), T.float32)
        point = T.alloc_shared((3, TQ), T.float32)
        votes = T.alloc_fragment((TP, TQ // 8), T.int32)
        count = T.alloc_fragment((TP,), T.int32)

        T.copy(Plane[bh * TP, 0], plane)
        T.clear(votes)
        for step in T.Pipelined(T.ceildiv(N, TQ), num_stages=2):
            T.copy(Point[0, step * TQ], point)
            for part in T.serial(8):
                for i, j in T.Parallel(TP, TQ // 8):
                    at = part * (TQ // 8) + j
                    along = plane[i, 0] * point[0, at] + plane[i, 1] * point[1, at]
                    off = along + plane[i, 2] * point[2, at] + plane[i, 3]
                    near = T.abs(off) < threshold and step * TQ + at < N
                    votes[i, j] += T.if_then_else(near, 1, 0)
        T.reduce_sum(votes, count, dim=1)
        T.copy(count, Inliers[bh * TP])
    return Inliers
