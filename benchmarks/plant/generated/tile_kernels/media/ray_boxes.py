# ruff: noqa: ANN001, ANN201, D103
"""How long rays run inside of boxes, each as dense as its number says."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def ray_boxes(Start, Inverse, Low, High, Dense):
    R, B = T.const("R, B")
    Start: T.Tensor((3, R), T.float32)
    Inverse: T.Tensor((3, R), T.float32)
    Low: T.Tensor((3, B), T.float32)
    High: T.Tensor((3, B), T.float32)
    Dense: T.Tensor((B,), T.float32)
    Out = T.empty((R,), T.float32)
    rays, boxes = 256, 256

    with T.Kernel(T.ceildiv(R, rays), threads=256) as block:
        start = T.alloc_fragment((3, rays), T.float32)
        inverse = T.alloc_fragment((3, rays), T.float32)
        total = T.alloc_fragment((rays,), T.float32)
        low = T.alloc_shared((3, boxes), T.float32)
        high = T.alloc_shared((3, boxes), T.float32)
        dense = T.alloc_shared((boxes,), T.float32)

        T.copy(Start[0:3, block * rays : (block + 1) * rays], start)
        T.copy(Inverse[0:3, block * rays : (block + 1) * rays], inverse)
        T.clear(total)
        for k in T.serial(B // boxes):
            T.copy(Low[0:3, k * boxes : (k + 1) * boxes], low)
            T.copy(High[0:3, k * boxes : (k + 1) * boxes], high)
            T.copy(Dense[k * boxes : (k + 1) * boxes], dense)
            for n in T.serial(boxes):
                for i in T.Parallel(rays):
                    enter, leave = 0.0, 100.0
                    for axis in T.unroll(3):
                        one = (low[axis, n] - start[axis, i]) * inverse[axis, i]
                        other = (high[axis, n] - start[axis, i]) * inverse[axis, i]
                        enter = T.max(enter, T.min(one, other))
                        leave = T.min(leave, T.max(one, other))
                    total[i] += dense[n] * T.max(leave - enter, 0.0)
        T.copy(total, Out[block * rays : (block + 1) * rays])
    return Out
