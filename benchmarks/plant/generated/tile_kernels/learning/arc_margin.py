# ruff: noqa: ANN001, ANN201, D103
"""Logits of a face recogniser: cosines to class centres, with an angle added to the right one."""

import math

import tileprof
import tileprof.lang as T


@tileprof.jit
def arc_margin(Emb, Centre, Label, margin: float = 0.5, s: float = 64.0):
    B, C, D = T.const("B, C, D")
    Emb: T.Tensor((B, D), T.bfloat16)
    Centre: T.Tensor((C, D), T.bfloat16)
    Label: T.Tensor((B,), T.int32)
    Logit = T.empty((B, C), T.bfloat16)
    cos_m, sin_m = math.cos(margin), math.sin(margin)
    tile_b, tile_c, tile_d = 128, 128, 64

    with T.Kernel(T.ceildiv(C, tile_c), T.ceildiv(B, tile_b), threads=256) as (ic, ib):
        T.use_swizzle(8)
        emb = T.alloc_shared((tile_b, tile_d), T.bfloat16)
        centre = T.alloc_shared((tile_c, tile_d), T.bfloat16)
        cosine = T.alloc_fragment((tile_b, tile_c), T.float32)

        T.clear(cosine)
        for d in T.Pipelined(T.ceildiv(D, tile_d), num_stages=3):
            T.copy(Emb[ib * tile_b, d * tile_d], emb)
            T.copy(Centre[ic * tile_c, d * tile_d], centre)
            T.gemm(emb, centre, cosine, transpose_B=True)
        for i, j in T.Parallel(tile_b, tile_c):
            cos = cosine[i, j]
            sin = T.sqrt(T.max(1.0 - cos * cos, 0.0))
            hit = Label[ib * tile_b + i] == ic * tile_c + j
            cosine[i, j] = T.if_then_else(hit, cos * cos_m - sin * sin_m, cos) * s
        T.copy(cosine, Logit[ib * tile_b, ic * tile_c])
    return Logit
