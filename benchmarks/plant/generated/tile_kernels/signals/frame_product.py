# ruff: noqa: ANN001, ANN201, D103
"""Windows of a signal that overlap by three quarters, each by all waves of a basis."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def frame_product(X, Basis):
    batch, samples, waves = T.const("batch, samples, waves")
    X: T.Tensor((batch, samples), T.float16)
    Basis: T.Tensor((512, waves), T.float16)
    frames = (samples - 512) // 128 + 1
    Y = T.empty((batch, frames, waves), T.float32)
    rows, columns, depth = 128, 128, 64

    with T.Kernel(T.ceildiv(waves, columns), T.ceildiv(frames, rows), batch, threads=256) as (
        bx,
        by,
        b,
    ):
        window = T.alloc_shared((rows, depth), T.float16)
        basis = T.alloc_shared((depth, columns), T.float16)
        sums = T.alloc_fragment((rows, columns), T.float32)

        T.clear(sums)
        for k in T.Pipelined(512 // depth, num_stages=3):
            for i, j in T.Parallel(rows, depth):
                window[i, j] = X[b, (by * rows + i) * 128 + k * depth + j]
            T.copy(Basis[k * depth, bx * columns], basis)
            T.gemm(window, basis, sums)
        T.copy(sums, Y[b, by * rows : (by + 1) * rows, bx * columns : (bx + 1) * columns])
    return Y
