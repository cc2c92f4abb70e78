# ruff: noqa: ANN001, ANN201, B007, D103
"""Neurons that charge by a current each and slowly recover, for 512 steps."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def neurons(Current):
    N = T.const("N")
    Current: T.Tensor((N,), T.float32)
    V = T.empty((N,), T.float32)
    block = 4096

    with T.Kernel(T.ceildiv(N, block), threads=256) as bx:
        v = T.alloc_fragment((block,), T.float32)
        w = T.alloc_fragment((block,), T.float32)
        drive = T.alloc_fragment((block,), T.float32)
        T.copy(Current[bx * block], drive)
        T.fill(v, -1.0)
        T.fill(w, -0.5)
        for _ in T.serial(8):
            for turn in T.serial(64):
                for i in T.Parallel(block):
                    v[i] += (drive[i] - v[i] * v[i] * v[i] * 0.33333333 - w[i]) * 0.05
                    w[i] += (v[i] + 0.7 - w[i] * 0.8) * 0.004
        T.copy(v, V[bx * block])
    return V
