# ruff: noqa: ANN001, ANN201, D103
"""Heat that goes down through the layers of an atmosphere, column by column, in eight bands."""

import tileprof
import tileprof.lang as T

BANDS = 8


@tileprof.jit
def radiation_columns(Depth, Source, Absorb):
    levels, N = T.const("levels, N")
    Depth: T.Tensor((levels, N), T.float32)
    Source: T.Tensor((levels, N), T.float32)
    Absorb: T.Tensor((BANDS,), T.float32)
    Flux = T.empty((levels, N), T.float32)
    columns = 128

    with T.Kernel(T.ceildiv(N, columns), threads=128) as bx:
        absorb = T.alloc_shared((BANDS,), T.float32)
        flux = T.alloc_fragment((BANDS, columns), T.float32)
        total = T.alloc_fragment((columns,), T.float32)

        T.copy(Absorb, absorb)
        T.clear(flux)
        for level in T.serial(levels):
            for b, i in T.Parallel(BANDS, columns):
                depth = Depth[level, bx * columns + i] * absorb[b]
                through = T.exp(-depth)
                emitted = Source[level, bx * columns + i] * (1.0 - through)
                flux[b, i] = flux[b, i] * through + emitted
            T.reduce_sum(flux, total, dim=0)
            T.copy(total, Flux[level, bx * columns : (bx + 1) * columns])
    return Flux
