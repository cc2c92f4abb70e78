# ruff: noqa: ANN001, ANN201, D103
"""A step of a diffusion sampler: guidance, rescaled to the spread without it, and two orders."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def guided_step(Latent, Cond, Uncond, Past, Coef, guidance: float = 6.0, rescale: float = 0.7):
    B, N = T.const("B, N")
    Latent: T.Tensor((B, N), T.float32)
    Cond: T.Tensor((B, N), T.float16)
    Uncond: T.Tensor((B, N), T.float16)
    Past: T.Tensor((B, N), T.float32)
    Coef: T.Tensor((B, 4), T.float32)
    Out = T.empty((2, B, N), T.float32)
    chunk = 1024

    with T.Kernel(B, threads=256) as b:
        coef = T.alloc_shared((4,), T.float32)
        plain = T.alloc_fragment((chunk,), T.float32)
        guided = T.alloc_fragment((chunk,), T.float32)
        plain2 = T.alloc_fragment((chunk,), T.float32)
        guided2 = T.alloc_fragment((chunk,), T.float32)
        m1 = T.alloc_fragment((1,), T.float32)
        m2 = T.alloc_fragment((1,), T.float32)
        g1 = T.alloc_fragment((1,), T.float32)
        g2 = T.alloc_fragment((1,), T.float32)

        T.copy(Coef[b, 0:4], coef)
        T.clear(plain)
        T.clear(guided)
        T.clear(plain2)
        T.clear(guided2)
        for s in T.serial(N // chunk):
            for i in T.Parallel(chunk):
                c = T.cast(Cond[b, s * chunk + i], T.float32)
                u = T.cast(Uncond[b, s * chunk + i], T.float32)
                g = u + guidance * (c - u)
                plain[i] += c
                plain2[i] += c * c
                guided[i] += g
                guided2[i] += g * g
        T.reduce_sum(plain, m1, dim=0)
        T.reduce_sum(plain2, m2, dim=0)
        T.reduce_sum(guided, g1, dim=0)
        T.reduce_sum(guided2, g2, dim=0)
        spread = T.sqrt((m2[0] - m1[0] * m1[0] / N) / (g2[0] - g1[0] * g1[0] / N))
        factor = rescale * spread + (1.0 - rescale)
        for s in T.serial(N // chunk):
            for i in T.Parallel(chunk):
                at = s * chunk + i
                c, u = T.cast(Cond[b, at], T.float32), T.cast(Uncond[b, at], T.float32)
                eps = (u + guidance * (c - u)) * factor
                x = Latent[b, at]
                clean = (x - coef[1] * eps) / coef[0]
                ahead = 1.5 * clean - 0.5 * Past[b, at]
                Out[0, b, at] = coef[2] * x + coef[3] * ahead
                Out[1, b, at] = clean
    return Out
