# ruff: noqa: ANN001, ANN201, D103
"""Points of scans, each as far as can be from those before it: a sample that covers a cloud."""

import tileprof
import tileprof.lang as T

PICKS = 64


@tileprof.jit
def farthest_points(Cloud):
    clouds, N = T.const("clouds, N")
    Cloud: T.Tensor((clouds, 3, N), T.float32)
    Pick = T.empty((clouds, PICKS), T.int32)

    with T.Kernel(clouds, threads=512) as cloud:
        xyz = T.alloc_shared((3, N), T.float32)
        gap = T.alloc_fragment((N,), T.float32)
        index = T.alloc_fragment((N,), T.int32)
        widest = T.alloc_fragment((1,), T.float32)
        first = T.alloc_fragment((1,), T.int32)

        T.copy(Cloud[cloud, 0:3, 0:N], xyz)
        T.fill(gap, 1e9)
        T.fill(first, 0)
        for k in T.serial(PICKS):
            Pick[cloud, k] = first[0]
            for i in T.Parallel(N):
                dx = xyz[0, i] - xyz[0, first[0]]
                dy = xyz[1, i] - xyz[1, first[0]]
                dz = xyz[2, i] - xyz[2, first[0]]
                gap[i] = T.min(gap[i], dx * dx + dy * dy + dz * dz)
            T.reduce_max(gap, widest, dim=0)
            for i in T.Parallel(N):
                index[i] = T.if_then_else(gap[i] == widest[0], i, N)
            T.reduce_min(index, first, dim=0)
    return Pick
