# ruff: noqa: ANN001, ANN201, D103
"""Values at the faces of cells, by weighted essentially non-oscillatory polynomials of order 5."""

import tileprof
import tileprof.lang as T

GHOST = 2


@T.macro
def roughness(a, b, c, slope):
    bend = a - 2.0 * b + c
    weight = 1.0 / (1e-6 + 13.0 / 12.0 * bend * bend + 0.25 * slope * slope)
    return weight * weight


@tileprof.jit
def weno_flux(U):
    lines, N = T.const("lines, N")
    U: T.Tensor((lines, N), T.float32)
    Face = T.empty((lines, N), T.float32)
    cells = 1024

    with T.Kernel(T.ceildiv(N, cells), lines, threads=256) as (bx, line):
        u = T.alloc_shared((cells + 2 * GHOST,), T.float32)

        for i in T.Parallel(cells + 2 * GHOST):
            u[i] = U[line, T.clamp(bx * cells + i - GHOST, 0, N - 1)]
        for i in T.Parallel(cells):
            a, b, c, d, e = u[i], u[i + 1], u[i + 2], u[i + 3], u[i + 4]
            w0 = 0.1 * roughness(a, b, c, a - 4.0 * b + 3.0 * c)
            w1 = 0.6 * roughness(b, c, d, b - d)
            w2 = 0.3 * roughness(c, d, e, 3.0 * c - 4.0 * d + e)
            p0 = 2.0 * a - 7.0 * b + 11.0 * c
            p1 = 5.0 * c - b + 2.0 * d
            p2 = 2.0 * c + 5.0 * d - e
            Face[line, bx * cells + i] = (w0 * p0 + w1 * p1 + w2 * p2) / (6.0 * (w0 + w1 + w2))
    return Face
