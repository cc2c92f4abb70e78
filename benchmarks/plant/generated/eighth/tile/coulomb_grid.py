# ruff: noqa: ANN001, ANN201, D103
"""Potential of the charges of a molecule at the points of a grid around it."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def coulomb_grid(Atom, X, Y, Z):
    N, D, H, W = T.const("N, D, H, W")
    Atom: T.Tensor((4, N), T.float32)
    X: T.Tensor((W,), T.float32)
    Y: T.Tensor((H,), T.float32)
    Z: T.Tensor((D,), T.float32)
    Potential = T.empty((D, H, W), T.float32)
    rows, columns, atoms = 4, 128, 64

    with T.Kernel(T.ceildiv(W, columns), T.ceildiv(H, rows), D, threads=128) as (bx, by, z):
        atom = T.alloc_shared((4, atoms), T.float32)
        total = T.alloc_fragment((rows, columns), T.float32)

        T.clear(total)
        for n in T.Pipelined(T.ceildiv(N, atoms), num_stages=2):
            T.copy(Atom[0, n * atoms], atom)
            for k in T.serial(atoms):
                for j, i in T.Parallel(rows, columns):
                    dx = X[T.min(bx * columns + i, W - 1)] - atom[0, k]
                    dy = Y[T.min(by * rows + j, H - 1)] - atom[1, k]
                    dz = Z[z] - atom[2, k]
                    total[j, i] += atom[3, k] * T.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
        for j, i in T.Parallel(rows, columns):
            if by * rows + j < H and bx * columns + i < W:
                Potential[z, by * rows + j, bx * columns + i] = total[j, i]
    return Potential
