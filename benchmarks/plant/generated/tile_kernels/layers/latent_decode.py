# ruff: noqa: ANN001, ANN201, D103
"""A new token's attention to latents that all heads share, with places beside them."""

import tileprof
import tileprof.lang as T


@tileprof.jit
def latent_decode(Q, Turned, Latents, Places):
    batch, heads, length, dim = T.const("batch, heads, length, dim")
    Q: T.Tensor((batch, heads, dim), T.bfloat16)
    Turned: T.Tensor((batch, heads, 64), T.bfloat16)
    Latents: T.Tensor((batch, length, dim), T.bfloat16)
    Places: T.Tensor((batch, length, 64), T.bfloat16)
    Out = T.empty((batch, heads, dim), T.bfloat16)
    rows, columns = 64, 64
    scale = 1.44269504 / (dim + 64) ** 0.5

    with T.Kernel(T.ceildiv(heads, rows), batch, threads=256) as (bx, b):
        query = T.alloc_shared((rows, dim), T.bfloat16)
        turned = T.alloc_shared((rows, 64), T.bfloat16)
        latent = T.alloc_shared((columns, dim), T.bfloat16)
        place = T.alloc_shared((columns, 64), T.bfloat16)
        weights = T.alloc_shared((rows, columns), T.bfloat16)
        scores = T.alloc_fragment((rows, columns), T.float32)
        out = T.alloc_fragment((rows, dim), T.float32)
        top = T.alloc_fragment((rows,), T.float32)
        before = T.alloc_fragment((rows,), T.float32)
        part = T.alloc_fragment((rows,), T.float32)
        total = T.alloc_fragment((rows,), T.float32)

        T.copy(Q[b, bx * rows : (bx + 1) * rows, :], query)
        T.copy(Turned[b, bx * rows : (bx + 1) * rows, :], turned)
        T.clear(out)
        T.clear(total)
        T.fill(top, -1e30)
        for k in T.Pipelined(length // columns, num_stages=2):
            T.copy(Latents[b, k * columns : (k + 1) * columns, :], latent)
            T.copy(Places[b, k * columns : (k + 1) * columns, :], place)
            T.gemm(query, latent, scores, transpose_B=True, clear_accum=True)
            T.gemm(turned, place, scores, transpose_B=True)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(rows, columns):
                scores[i, j] = T.__exp2((scores[i, j] - top[i]) * scale)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(rows):
                before[i] = T.__exp2((before[i] - top[i]) * scale)
                total[i] = total[i] * before[i] + part[i]
            T.copy(scores, weights)
            for i, j in T.Parallel(rows, dim):
                out[i, j] *= before[i]
            T.gemm(weights, latent, out)
        for i, j in T.Parallel(rows, dim):
            out[i, j] /= total[i]
        T.copy(out, Out[b, bx * rows : (bx + 1) * rows, :])
    return Out
