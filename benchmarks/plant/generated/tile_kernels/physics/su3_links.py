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

        T.copy(Field[0:6, block * sites : (block + 1) * sites], field)
        for row in T.unroll(3):
            for i in T.Parallel(sites):
                at = block * sites + i
                real, imaginary = 0.0, 0.0
                if at < N:
                    for column in T.unroll(3):
                        one, other = (
                            Link[row * 6 + column * 2, at],
                            Link[row * 6 + column * 2 + 1, at],
                        )
                        a, b = field[column * 2, i], field[column * 2 + 1, i]
                        real = real + one * a - other * b
                        imaginary = imaginary + one * b + other * a
                    Out[row * 2, at] = real
                    Out[row * 2 + 1, at] = imaginary
    return Out
