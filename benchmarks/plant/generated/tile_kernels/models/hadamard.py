# ruff: noqa: ANN001, ANN201, D103
"""Groups of 128 channels turned by a matrix of signs, so that no channel stands out."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def hadamard(X, Signs):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.bfloat16)
    Signs: T.Tensor((128, 128), T.bfloat16)
    Y = T.empty((M, N), T.bfloat16)
    rows, turns = 128, 8

    with T.Kernel(N // 128, T.ceildiv(M, rows * turns), threads=128) as (bx, by):
        signs = T.alloc_shared((128, 128), T.bfloat16)
        tile = T.alloc_shared((rows, 128), T.bfloat16)
        made = T.alloc_fragment((rows, 128), T.float32)

        T.copy(Signs, signs)
        for k in T.Pipelined(turns, num_stages=3):
            T.copy(X[(by * turns + k) * rows, bx * 128], tile)
            T.gemm(tile, signs, made, clear_accum=True)
            for i, j in T.Parallel(rows, 128):
                made[i, j] *= 0.08838835
            T.copy(made, Y[(by * turns + k) * rows, bx * 128])
    return Y
