# ruff: noqa: ANN001, ANN201, D103
"""Rounds of arithmetic on each element, as a generator of random numbers has them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def rounds(X):
    N = T.const("N")
    X: T.Tensor((N,), T.uint32)
    Y = T.empty((N,), T.uint32)
    block = 4096

    with T.Kernel(T.ceildiv(N, block), threads=256) as bx:
        x = T.alloc_fragment((block,), T.uint32)
        y = T.alloc_fragment((block,), T.uint32)
        T.copy(X[bx * block], x)
        T.clear(y)
        for _ in T.serial(8):
            for turn in T.serial(64):
                for i in T.Parallel(block):
                    x[i] = (x[i] ^ (y[i] >> T.uint32(15))) * T.uint32(2246822519)
                    y[i] = (y[i] ^ (x[i] >> T.uint32(13))) + T.cast(turn, T.uint32)
        for i in T.Parallel(block):
            Y[bx * block + i] = x[i] ^ y[i]
    return Y
