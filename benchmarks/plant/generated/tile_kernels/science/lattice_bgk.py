# ruff: noqa: ANN001, ANN201, D103
"""Collisions of a lattice gas: nine densities of each cell fall towards balance."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lattice_bgk(F):
    N = T.const("N")
    F: T.Tensor((9, N), T.float32)
    Y = T.empty((9, N), T.float32)
    cells = 512
    ways = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    shares = [4 / 9, *[1 / 9] * 4, *[1 / 36] * 4]

    with T.Kernel(T.ceildiv(N, cells), threads=128) as block:
        for i in T.Parallel(cells):
            at = block * cells + i
            held = [F[way, at] for way in list(range(9))]
            mass = held[0] + held[1] + held[2] + held[3] + held[4]
            mass = mass + held[5] + held[6] + held[7] + held[8]
            x = (held[1] - held[3] + held[5] - held[6] - held[7] + held[8]) / mass
            y = (held[2] - held[4] + held[5] + held[6] - held[7] - held[8]) / mass
            still = 1.0 - (x * x + y * y) * 1.5
            for way in list(range(9)):
                along = x * ways[way][0] + y * ways[way][1]
                balance = mass * shares[way] * (still + along * 3.0 + along * along * 4.5)
                Y[way, at] = held[way] + (balance - held[way]) * 0.6
    return Y
