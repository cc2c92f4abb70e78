# ruff: noqa: ANN001, ANN201, D103
"""Colours along rays: samples weighted by what is absorbed, behind what was absorbed before."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def volume_render(Density, Step, Colour):
    R, S = T.const("R, S")
    Density: T.Tensor((R, S), T.float32)
    Step: T.Tensor((R, S), T.float32)
    Colour: T.Tensor((3, R, S), T.float32)
    Out = T.empty((3, R), T.float32)
    rays = 16

    with T.Kernel(T.ceildiv(R, rays), threads=256) as block:
        thick = T.alloc_fragment((rays, S), T.float32)
        passed = T.alloc_shared((rays, S), T.float32)
        weight = T.alloc_fragment((rays, S), T.float32)
        shade = T.alloc_fragment((rays, S), T.float32)
        total = T.alloc_fragment((rays,), T.float32)

        for i, j in T.Parallel(rays, S):
            ray = block * rays + i
            thick[i, j] = Density[ray, j] * Step[ray, j] * 1.44269504
            passed[i, j] = thick[i, j]
        T.cumsum(passed, dim=1)
        for i, j in T.Parallel(rays, S):
            weight[i, j] = T.__exp2(thick[i, j] - passed[i, j]) - T.__exp2(0.0 - passed[i, j])
        for c in T.serial(3):
            for i, j in T.Parallel(rays, S):
                shade[i, j] = weight[i, j] * Colour[c, block * rays + i, j]
            T.reduce_sum(shade, total, dim=1)
            T.copy(total, Out[c, block * rays : (block + 1) * rays])
    return Out
