# ruff: noqa: ANN001, ANN201, D103
"""A step of descent whose momentum is kept in bytes, 256 of them by one scale."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def byte_momentum(W, Grad, Kept, Scale):
    blocks = T.const("blocks")
    W: T.Tensor((blocks, 256), T.float32)
    Grad: T.Tensor((blocks, 256), T.bfloat16)
    Kept: T.Tensor((blocks, 256), T.int8)
    Scale: T.Tensor((blocks,), T.float32)
    Out = T.empty((2, blocks, 256), T.float32)
    rows = 8

    with T.Kernel(T.ceildiv(blocks, rows), threads=256) as block:
        momentum = T.alloc_fragment((rows, 256), T.float32)
        top = T.alloc_fragment((rows,), T.float32)

        for i, j in T.Parallel(rows, 256):
            row = block * rows + i
            kept = T.cast(Kept[row, j], T.float32) * Scale[row]
            momentum[i, j] = kept * 0.9 + T.cast(Grad[row, j], T.float32)
        T.reduce_absmax(momentum, top, dim=1)
        for i, j in T.Parallel(rows, 256):
            row = block * rows + i
            Out[0, row, j] = W[row, j] * 0.999 - momentum[i, j] * 0.01
            Out[1, row, j] = T.floor(momentum[i, j] * 127.0 / top[i] + 0.5)
    return Out
