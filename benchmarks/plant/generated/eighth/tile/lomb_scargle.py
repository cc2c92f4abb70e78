# ruff: noqa: ANN001, ANN201, D103
"""Power of a star's brightness at many frequencies, from nights that are unevenly apart."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def lomb_scargle(Night, Light, Omega):
    N, F = T.const("N, F")
    Night: T.Tensor((N,), T.float32)
    Light: T.Tensor((N,), T.float32)
    Omega: T.Tensor((F,), T.float32)
    Power = T.empty((F,), T.float32)
    block_F, block_N = 32, 64

    with T.Kernel(T.ceildiv(F, block_F), threads=128) as bf:
        night = T.alloc_shared((block_N,), T.float32)
        light = T.alloc_shared((block_N,), T.float32)
        even = T.alloc_fragment((block_F, block_N), T.float32)
        odd = T.alloc_fragment((block_F, block_N), T.float32)
        even_sum = T.alloc_fragment((block_F,), T.float32)
        odd_sum = T.alloc_fragment((block_F,), T.float32)

        T.clear(even)
        T.clear(odd)
        for n in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
            T.copy(Night[n * block_N], night)
            T.copy(Light[n * block_N], light)
            for f, t in T.Parallel(block_F, block_N):
                turn = Omega[T.min(bf * block_F + f, F - 1)] * night[t]
                even[f, t] += light[t] * T.cos(turn)
                odd[f, t] += light[t] * T.sin(turn)
        T.reduce_sum(even, even_sum, dim=1)
        T.reduce_sum(odd, odd_sum, dim=1)
        for f in T.Parallel(block_F):
            both = even_sum[f] * even_sum[f] + odd_sum[f] * odd_sum[f]
            even_sum[f] = both / N
        T.copy(even_sum, Power[bf * block_F])
    return Power
