# ruff: noqa: ANN001, ANN201, D103
"""Complex three-by-three matrices times vectors, one of each at every site of a lattice."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def su3_links(Link, Field):
    N = T.const("N")
    Link: T.Tensor((18, N), T.float32)
    Field: T.Tensor((6, N), T.float32)
    Out = T.empty((6, N), T.float32)
    sites = 512

    with T.Kernel(T.ceildiv(N, sites), threads=128) as block:
        field = T.alloc_fragment((6, sites), T.float32)
        link = T.alloc_fragment((6, sites), T.float32)

        T.copy(Field[0:6, block * sites : (block + 1) * sites], field)
        for row in T.unroll(3):
            T.copy(Link[row * 6 : row * 6 + 6, block * sites : (block + 1) * sites], link)
            for i in T.Parallel(sites):
                real, imaginary = 0.0, 0.0
                for column in T.unroll(3):
                    one, other = link[column * 2, i], link[column * 2 + 1, i]
                    a, b = field[column * 2, i], field[column * 2 + 1, i]
                    real = real + one * a - other * b
                    imaginary = imaginary + one * b + other * a
                if block * sites + i < N:
                    Out[row * 2, block * sites + i] = real
                    Out[row * 2 + 1, block * sites + i] = imaginary
    return Out
