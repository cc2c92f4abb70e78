# ruff: noqa: ANN001, ANN201, B007, D103
"""Springs that swing for 512 steps, each on its own."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def oscillate(X, V):
    N = T.const("N")
    X: T.Tensor((N,), T.float32)
    V: T.Tensor((N,), T.float32)
    Y = T.empty((N,), T.float32)
    block = 8192

    with T.Kernel(T.ceildiv(N, block), threads=256) as bx:
        x = T.alloc_fragment((block,), T.float32)
        v = T.alloc_fragment((block,), T.float32)
        T.copy(X[bx * block], x)
        T.copy(V[bx * block], v)
        for _ in T.serial(8):
            for turn in T.serial(64):
                for i in T.Parallel(block):
                    v[i] = v[i] - x[i] * (0.01 + x[i] * x[i] * 0.001)
                    x[i] = x[i] + v[i] * 0.01
        T.copy(x, Y[bx * block])
    return Y
