# ruff: noqa: ANN001, ANN201, D103
"""Votes of the edges of a picture for lines: each edge for one line of each direction."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def hough_lines(X, Y, Cos, Sin, bins: int = 1024):
    N, angles = T.const("N, angles")
    X: T.Tensor((N,), T.float32)
    Y: T.Tensor((N,), T.float32)
    Cos: T.Tensor((angles,), T.float32)
    Sin: T.Tensor((angles,), T.float32)
    Votes = T.empty((angles, bins), T.int32)
    edges = 1024

    with T.Kernel(angles, threads=256) as angle:
        votes = T.alloc_shared((bins,), T.int32)

        T.clear(votes)
        for part in T.serial(T.ceildiv(N, edges)):
            for e in T.Parallel(edges):
                at = part * edges + e
                if at < N:
                    rho = X[at] * Cos[angle] + Y[at] * Sin[angle]
                    place = T.cast(T.floor(rho + 0.5), T.int32) + bins // 2
                    if place >= 0 and place < bins:
                        T.atomic_add(votes[place], 1)
        T.copy(votes, Votes[angle, 0:bins])
    return Votes
