# ruff: noqa: ANN001, ANN201, D103
"""Number-theoretic transforms of rows of 1024 numbers modulo 12289, as lattice signatures do."""

import tileprof
import tileprof.lang as T

SIZE = 1024
PRIME = 12289


@tileprof.jit
def ring_transform(X, Root):
    M = T.const("M")
    X: T.Tensor((M, SIZE), T.int32)
    Root: T.Tensor((SIZE // 2,), T.int32)
    Y = T.empty((M, SIZE), T.int32)

    with T.Kernel(M, threads=256) as row:
        a = T.alloc_shared((SIZE,), T.int32)
        root = T.alloc_shared((SIZE // 2,), T.int32)

        T.copy(X[row, 0:SIZE], a)
        T.copy(Root, root)
        for stage in list(range(10)):
            half = SIZE >> (stage + 1)
            for j in T.Parallel(SIZE // 2):
                at = j // half * 2 * half + j % half
                u, v = a[at], a[at + half]
                total, apart = u + v, u - v + PRIME
                a[at] = T.if_then_else(total >= PRIME, total - PRIME, total)
                a[at + half] = apart * root[j % half << stage] % PRIME
        T.copy(a, Y[row, 0:SIZE])
    return Y
