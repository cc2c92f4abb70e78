# ruff: noqa: ANN202
"""Attention forward and MLA decoding in TileLang, in the configurations that are fastest for it.

Only imported where TileLang is installed.  Annotations are evaluated by TileLang where they stand,
so they must not be postponed.
"""

from typing import Any

import tilelang.language as T

LOG2E = 1.4426950408889634


def attention_forward(
    batch: int,
    length: int,
    heads: int,
    dim: int,
    causal: bool,
    tile: tuple[int, int] = (128, 128),
    stages: int = 2,
    threads: int = 256,
) -> Any:
    """`f(q, k, v, out)`, each (batch, length, heads, dim) in bfloat16."""
    shape, scale = (batch, length, heads, dim), dim**-0.5 * LOG2E
    bm, bn = tile
    rows = T.GemmWarpPolicy.FullRow

    @T.prim_func
    def main(
        Q: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
        K: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
        V: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
        Out: T.Tensor(shape, "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(T.ceildiv(length, bm), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((bm, dim), "bfloat16")
            K_shared = T.alloc_shared((bn, dim), "bfloat16")
            V_shared = T.alloc_shared((bn, dim), "bfloat16")
            O_shared = T.alloc_shared((bm, dim), "bfloat16")
            scores = T.alloc_fragment((bm, bn), "float32")
            weights = T.alloc_fragment((bm, bn), "bfloat16")
            output = T.alloc_fragment((bm, dim), "float32")
            top = T.alloc_fragment((bm,), "float32")
            before = T.alloc_fragment((bm,), "float32")
            factor = T.alloc_fragment((bm,), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")

            T.copy(Q[bz, bx * bm : (bx + 1) * bm, by, :], Q_shared)
            T.fill(output, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            tiles = T.ceildiv(length, bn)
            if causal:
                tiles = T.min(tiles, T.ceildiv((bx + 1) * bm, bn))
            for k in T.Pipelined(tiles, num_stages=stages):
                T.copy(K[bz, k * bn : (k + 1) * bn, by, :], K_shared)
                if causal:
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(
                            bx * bm + i >= k * bn + j, 0, -T.infinity("float32")
                        )
                else:
                    T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=rows)
                T.copy(top, before)
                T.fill(top, -T.infinity("float32"))
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    top[i] = T.max(top[i], before[i])
                for i in T.Parallel(bm):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bm, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(bm, dim):
                    output[i, j] *= factor[i]
                T.copy(V[bz, k * bn : (k + 1) * bn, by, :], V_shared)
                T.gemm(weights, V_shared, output, policy=rows)
            for i, j in T.Parallel(bm, dim):
                output[i, j] /= total[i]
            T.copy(output, O_shared)
            T.copy(O_shared, Out[bz, bx * bm : (bx + 1) * bm, by, :])

    return main


def mla_decode(
    batch: int,
    heads: int,
    keys: int,
    rank: int,
    rope: int,
    width: int = 192,
    tile: tuple[int, int] = (64, 64),
    stages: int = 2,
    threads: int = 256,
) -> Any:
    """`f(q, q_rope, kv, k_rope, out)` in bfloat16, as in `case_studies/mla_decode.py`."""
    scale = width**-0.5 * LOG2E
    bh, bn = tile
    columns = T.GemmWarpPolicy.FullCol

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, rank), "bfloat16"),  # type: ignore[valid-type]
        Q_rope: T.Tensor((batch, heads, rope), "bfloat16"),  # type: ignore[valid-type]
        KV: T.Tensor((batch, keys, rank), "bfloat16"),  # type: ignore[valid-type]
        K_rope: T.Tensor((batch, keys, rope), "bfloat16"),  # type: ignore[valid-type]
        Out: T.Tensor((batch, heads, rank), "bfloat16"),  # type: ignore[valid-type]
    ):
        with T.Kernel(heads // bh, batch, threads=threads) as (bx, b):
            Q_shared = T.alloc_shared((bh, rank), "bfloat16")
            Qr_shared = T.alloc_shared((bh, rope), "bfloat16")
            KV_shared = T.alloc_shared((bn, rank), "bfloat16")
            Kr_shared = T.alloc_shared((bn, rope), "bfloat16")
            weights = T.alloc_shared((bh, bn), "bfloat16")
            O_shared = T.alloc_shared((bh, rank), "bfloat16")
            scores = T.alloc_fragment((bh, bn), "float32")
            output = T.alloc_fragment((bh, rank), "float32")
            top = T.alloc_fragment((bh,), "float32")
            before = T.alloc_fragment((bh,), "float32")
            factor = T.alloc_fragment((bh,), "float32")
            part = T.alloc_fragment((bh,), "float32")
            total = T.alloc_fragment((bh,), "float32")

            T.copy(Q[b, bx * bh : (bx + 1) * bh, :], Q_shared)
            T.copy(Q_rope[b, bx * bh : (bx + 1) * bh, :], Qr_shared)
            T.fill(output, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(keys, bn), num_stages=stages):
                T.copy(KV[b, k * bn : (k + 1) * bn, :], KV_shared)
                T.copy(K_rope[b, k * bn : (k + 1) * bn, :], Kr_shared)
                T.clear(scores)
                T.gemm(Q_shared, KV_shared, scores, transpose_B=True, policy=columns)
                T.gemm(Qr_shared, Kr_shared, scores, transpose_B=True, policy=columns)
                T.copy(top, before)
                T.fill(top, -T.infinity("float32"))
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(bh):
                    top[i] = T.max(top[i], before[i])
                for i in T.Parallel(bh):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bh, bn):
                    scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                T.copy(scores, weights)
                for i in T.Parallel(bh):
                    total[i] = total[i] * factor[i] + part[i]
                for i, j in T.Parallel(bh, rank):
                    output[i, j] *= factor[i]
                T.gemm(weights, KV_shared, output, policy=columns)
            for i, j in T.Parallel(bh, rank):
                output[i, j] /= total[i]
            T.copy(output, O_shared)
            T.copy(O_shared, Out[b, bx * bh : (bx + 1) * bh, :])

    return main
