# ruff: noqa: ANN001, ANN201, D103
"""A picture from the coils of a magnet: what each saw, by how well it sees each place."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def coil_combine(Real, Imag, SenseReal, SenseImag):
    coils, N = T.const("coils, N")
    Real: T.Tensor((coils, N), T.float32)
    Imag: T.Tensor((coils, N), T.float32)
    SenseReal: T.Tensor((coils, N), T.float32)
    SenseImag: T.Tensor((coils, N), T.float32)
    Picture = T.empty((2, N), T.float32)
    pixels = 512

    with T.Kernel(T.ceildiv(N, pixels), threads=128) as bx:
        real = T.alloc_fragment((pixels,), T.float32)
        imag = T.alloc_fragment((pixels,), T.float32)
        norm = T.alloc_fragment((pixels,), T.float32)

        T.clear(real)
        T.clear(imag)
        T.fill(norm, 1e-6)
        for c in T.serial(coils):
            for i in T.Parallel(pixels):
                n = bx * pixels + i
                if n < N:
                    x, y = Real[c, n], Imag[c, n]
                    u, v = SenseReal[c, n], SenseImag[c, n]
                    real[i] += x * u + y * v
                    imag[i] += y * u - x * v
                    norm[i] += u * u + v * v
        for i in T.Parallel(pixels):
            if bx * pixels + i < N:
                Picture[0, bx * pixels + i] = real[i] / norm[i]
                Picture[1, bx * pixels + i] = imag[i] / norm[i]
    return Picture
