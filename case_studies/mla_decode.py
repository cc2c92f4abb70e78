"""Decoding with multi-head latent attention: all heads of a token share one compressed key.

A cached key has `rank` numbers that are its value too, and `rope` more that carry its position.
Blocks of one batch entry each take a part of the keys (`splits`); a second launch combines them.
"""

import sys
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import tileprof
import tileprof.lang as T
from case_studies.combining import combine

LOG2E = 1.4426950408889634
LOWEST = -1e30
"""Below every score, and finite: its difference to itself is 0."""


@tileprof.jit
def mla_decode(
    Q, Q_rope, KV, K_rope, width: int = 192, splits: int = 1, block_H: int = 64, block_N: int = 64,
    stages: int = 2, threads: int = 256,
):  # fmt: skip
    """`width`: of a head before it was compressed, by which scores are scaled."""
    batch, heads, keys, rank, rope = T.const("batch, heads, keys, rank, rope")
    Q: T.Tensor((batch, heads, rank), T.bfloat16)
    Q_rope: T.Tensor((batch, heads, rope), T.bfloat16)
    KV: T.Tensor((batch, keys, rank), T.bfloat16)
    K_rope: T.Tensor((batch, keys, rope), T.bfloat16)
    Out = T.empty((batch, heads, rank), T.bfloat16)
    Parts = T.alloc_global((splits, batch, heads, rank), T.float32)
    Lse = T.alloc_global((splits, batch, heads), T.float32)
    scale = width**-0.5 * LOG2E
    tiles = T.ceildiv(keys, block_N)
    share = T.ceildiv(tiles, splits)

    with T.Kernel(heads // block_H, batch, splits, threads=threads) as (bx, b, part):
        Q_shared = T.alloc_shared((block_H, rank), T.bfloat16)
        Qr_shared = T.alloc_shared((block_H, rope), T.bfloat16)
        KV_shared = T.alloc_shared((block_N, rank), T.bfloat16)
        Kr_shared = T.alloc_shared((block_N, rope), T.bfloat16)
        weights = T.alloc_shared((block_H, block_N), T.bfloat16)
        scores = T.alloc_fragment((block_H, block_N), T.float32)
        output = T.alloc_fragment((block_H, rank), T.float32)
        top = T.alloc_fragment((block_H,), T.float32)
        factor = T.alloc_fragment((block_H,), T.float32)
        total = T.alloc_fragment((block_H,), T.float32)
        heads_here = slice(bx * block_H, (bx + 1) * block_H)

        T.copy(Q[b, heads_here, :], Q_shared)
        T.copy(Q_rope[b, heads_here, :], Qr_shared)
        T.clear(output)
        T.clear(total)
        T.fill(top, LOWEST)
        for turn in T.Pipelined(T.min(share, tiles - part * share), num_stages=stages):
            k = part * share + turn
            T.copy(KV[b, k * block_N : (k + 1) * block_N, :], KV_shared)
            T.copy(K_rope[b, k * block_N : (k + 1) * block_N, :], Kr_shared)
            # Each warp group has half of the keys here and half of the values below.
            halves = {"transpose_B": True, "policy": T.GemmWarpPolicy.FullCol}
            T.gemm(Q_shared, KV_shared, scores, clear_accum=True, **halves)
            T.gemm(Qr_shared, Kr_shared, scores, **halves)
            if keys % block_N:
                for i, j in T.Parallel(block_H, block_N):
                    seen = k * block_N + j < keys
                    scores[i, j] = T.if_then_else(seen, scores[i, j], -T.infinity(T.float32))
            T.copy(top, factor)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(block_H):
                factor[i] = T.__exp2((factor[i] - top[i]) * scale)
                total[i] *= factor[i]
            for i, j in T.Parallel(block_H, block_N):
                scores[i, j] = T.__exp2(T.fma(scores[i, j], scale, -top[i] * scale))
            T.reduce_sum(scores, total, dim=1, clear=False)
            T.copy(scores, weights)
            for i, j in T.Parallel(block_H, rank):
                output[i, j] *= factor[i]
            T.gemm(weights, KV_shared, output, policy=T.GemmWarpPolicy.FullCol)
        for i in T.Parallel(block_H):
            factor[i] = 1 / T.max(total[i], 1e-30)
        for i, j in T.Parallel(block_H, rank):
            output[i, j] *= factor[i]
        if splits == 1:
            T.copy(output, Out[b, heads_here, :])
            return Out
        for i in T.Parallel(block_H):
            Lse[part, b, bx * block_H + i] = top[i] * scale + T.log2(total[i])
        T.copy(output, Parts[part, b, heads_here, :])

    with T.Kernel(heads // 2, batch, threads=256) as (pair, b):
        combine(Parts, Lse, Out, splits, 2, rank, b, pair * 2)
    return Out


def reference(q, q_rope, kv, k_rope, width: int = 192) -> np.ndarray:
    """In float64."""
    q, q_rope, kv, k_rope = (np.asarray(x, np.float64) for x in (q, q_rope, kv, k_rope))
    scores = q @ kv.transpose(0, 2, 1) + q_rope @ k_rope.transpose(0, 2, 1)
    scores *= width**-0.5
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ kv


def inputs(batch, heads, keys, rank: int = 512, rope: int = 64, seed: int = 0) -> list[np.ndarray]:
    """Random queries and a random cache, each with its rotated part."""
    generator = np.random.default_rng(seed)
    shapes = [(batch, n, width) for n in (heads, keys) for width in (rank, rope)]
    return [generator.standard_normal(s, np.float32).astype(ml_dtypes.bfloat16) for s in shapes]


def main(batch: int = 2, heads: int = 64, keys: int = 500) -> None:
    given = inputs(batch, heads, keys)
    for splits in (1, 3):
        out = mla_decode(*given, splits=splits)
        expected = reference(*given)
        np.testing.assert_allclose(out.astype(np.float32), expected, rtol=2e-2, atol=2e-2)
    print(f"mla_decode {batch}×{heads}×{keys}: agrees with NumPy, in one part and in several")


if __name__ == "__main__":
    main()
