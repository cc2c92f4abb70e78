# ruff: noqa: ANN001, ANN201, D103
"""Structure factors of particles: sums of waves, in parts of 1024 particles."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def structure_factor(Place, Wave):
    N, K = T.const("N, K")
    Place: T.Tensor((3, N), T.float32)
    Wave: T.Tensor((3, K), T.float32)
    Out = T.empty((T.ceildiv(N, 1024), 2, K), T.float32)
    waves, particles = 256, 1024

    with T.Kernel(T.ceildiv(K, waves), T.ceildiv(N, particles), threads=256) as (bk, bn):
        place = T.alloc_shared((3, particles), T.float32)
        wave = T.alloc_fragment((3, waves), T.float32)
        real = T.alloc_fragment((waves,), T.float32)
        imaginary = T.alloc_fragment((waves,), T.float32)

        T.copy(Place[0:3, bn * particles : (bn + 1) * particles], place)
        T.copy(Wave[0:3, bk * waves : (bk + 1) * waves], wave)
        T.clear(real)
        T.clear(imaginary)
        for n in T.serial(particles):
            for k in T.Parallel(waves):
                phase = wave[0, k] * place[0, n] + wave[1, k] * place[1, n]
                phase = phase + wave[2, k] * place[2, n]
                if bn * particles + n < N:
                    real[k] += T.__cos(phase)
                    imaginary[k] += T.__sin(phase)
        T.copy(real, Out[bn, 0, bk * waves : (bk + 1) * waves])
        T.copy(imaginary, Out[bn, 1, bk * waves : (bk + 1) * waves])
    return Out
