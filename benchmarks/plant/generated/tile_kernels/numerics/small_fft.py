# ruff: noqa: ANN001, ANN201, D103
"""Fourier transforms of 256 complex numbers each, in shared memory, two by two."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def small_fft(X, Root):
    M = T.const("M")
    X: T.Tensor((2, M, 256), T.float32)
    Root: T.Tensor((2, 128), T.float32)
    Y = T.empty((2, M, 256), T.float32)
    rows = 4

    with T.Kernel(T.ceildiv(M, rows), threads=256) as block:
        real = T.alloc_shared((rows, 256), T.float32)
        imaginary = T.alloc_shared((rows, 256), T.float32)
        root = T.alloc_shared((2, 128), T.float32)

        T.copy(Root, root)
        for i, j in T.Parallel(rows, 256):
            swapped = ((j & 15) << 4) | (j >> 4)
            pairs = ((swapped & 51) << 2) | ((swapped >> 2) & 51)
            place = ((pairs & 85) << 1) | ((pairs >> 1) & 85)
            real[i, j] = X[0, block * rows + i, place]
            imaginary[i, j] = X[1, block * rows + i, place]
        for level in T.serial(8):
            for i, p in T.Parallel(rows, 128):
                span = 1 << level
                low = ((p >> level) << (level + 1)) + (p & (span - 1))
                at = (p & (span - 1)) << (7 - level)
                c, s = root[0, at], root[1, at]
                a, b = real[i, low], imaginary[i, low]
                e = real[i, low + span] * c - imaginary[i, low + span] * s
                f = real[i, low + span] * s + imaginary[i, low + span] * c
                real[i, low] = a + e
                imaginary[i, low] = b + f
                real[i, low + span] = a - e
                imaginary[i, low + span] = b - f
        T.copy(real, Y[0, block * rows : (block + 1) * rows, :])
        T.copy(imaginary, Y[1, block * rows : (block + 1) * rows, :])
    return Y
