# ruff: noqa: ANN001, ANN201, D103
"""Bytes for 128 columns of weights, whose errors the columns behind them make up for."""

import tileprof
import tileprof.lang as T

GROUP = 128


@tileprof.jit
def gptq_columns(W, U, Scale, block_N: int = 64):
    N = T.const("N")
    W: T.Tensor((N, GROUP), T.float32)
    U: T.Tensor((GROUP, GROUP), T.float32)
    Scale: T.Tensor((N,), T.float32)
    Code = T.empty((N, GROUP), T.int8)

    with T.Kernel(T.ceildiv(N, block_N), threads=256) as bx:
        w = T.alloc_fragment((block_N, GROUP), T.float32)
        row = T.alloc_shared((GROUP,), T.float32)
        column = T.alloc_shared((block_N,), T.float32)
        scale = T.alloc_shared((block_N,), T.float32)
        code = T.alloc_shared((block_N, GROUP), T.int8)

        T.copy(W[bx * block_N, 0], w)
        T.copy(Scale[bx * block_N : (bx + 1) * block_N], scale)
        for j in T.serial(GROUP):
            T.copy(U[j, 0:GROUP], row)
            for i, c in T.Parallel(block_N, GROUP):
                if c == j:
                    column[i] = w[i, c]
            for i in T.Parallel(block_N):
                step = T.max(scale[i], 1e-8)
                q = T.clamp(T.floor(column[i] / step + 0.5), -128.0, 127.0)
                code[i, j] = T.cast(q, T.int8)
                column[i] = (column[i] - q * step) / row[j]
            for i, c in T.Parallel(block_N, GROUP):
                w[i, c] -= T.if_then_else(c > j, column[i] * row[c], 0.0)
        T.copy(code, Code[bx * block_N, 0])
    return Code
