# ruff: noqa: ANN001, ANN201, D103
"""Pulls of all bodies on each other, softened where two are close."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def nbody(Bodies):
    N = T.const("N")
    Bodies: T.Tensor((4, N), T.float32)
    Pull = T.empty((3, N), T.float32)
    bodies, others = 64, 128

    with T.Kernel(T.ceildiv(N, bodies), threads=64) as block:
        own = T.alloc_fragment((4, bodies), T.float32)
        other = T.alloc_shared((4, others), T.float32)
        pull = T.alloc_fragment((3, bodies), T.float32)

        T.copy(Bodies[0, block * bodies], own)
        T.clear(pull)
        for k in T.Pipelined(T.ceildiv(N, others), num_stages=2):
            T.copy(Bodies[0, k * others], other)
            for j in T.serial(others):
                for i in T.Parallel(bodies):
                    dx = other[0, j] - own[0, i]
                    dy = other[1, j] - own[1, i]
                    dz = other[2, j] - own[2, i]
                    near = T.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
                    force = other[3, j] * near * near * near
                    pull[0, i] += dx * force
                    pull[1, i] += dy * force
                    pull[2, i] += dz * force
        T.copy(pull, Pull[0, block * bodies])
    return Pull
