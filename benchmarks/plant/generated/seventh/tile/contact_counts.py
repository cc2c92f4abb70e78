# ruff: noqa: ANN001, ANN201, D103
"""In how many frames of a simulation each two residues of a protein are near each other."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def contact_counts(Frame):
    frames, R = T.const("frames, R")
    Frame: T.Tensor((frames, 3, R), T.float32)
    Count = T.empty((R, R), T.int32)
    ti, tj = 32, 64
    cutoff = 8.0

    with T.Kernel(T.ceildiv(R, tj), T.ceildiv(R, ti), threads=128) as (bj, bi):
        left = T.alloc_shared((3, ti), T.float32)
        right = T.alloc_shared((3, tj), T.float32)
        near = T.alloc_fragment((ti, tj), T.int32)

        T.clear(near)
        for f in T.Pipelined(frames, num_stages=3):
            T.copy(Frame[f, 0:3, bi * ti : (bi + 1) * ti], left)
            T.copy(Frame[f, 0:3, bj * tj : (bj + 1) * tj], right)
            for i, j in T.Parallel(ti, tj):
                dx = left[0, i] - right[0, j]
                dy = left[1, i] - right[1, j]
                dz = left[2, i] - right[2, j]
                close = dx * dx + dy * dy + dz * dz < cutoff * cutoff
                near[i, j] += T.if_then_else(close, 1, 0)
        T.copy(near, Count[bi * ti, bj * tj])
    return Count
