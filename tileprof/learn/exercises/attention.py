"""Attention that never stores the matrix of scores."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Decided, OnlyArguments, without_tensor_cores
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(Q: Array, K: Array, V: Array) -> Array:
    """Take Q, float16[M, D], K and V, float16[N, D]; return O, float32[M, D]."""
    q, k, v = (x.astype(np.float32) for x in (Q, K, V))
    scores = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) @ v).astype(np.float32)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Partial tiles of queries and of keys; large scores; one key."""
    for m, n, d, scale in ((70, 150, 64, 1), (64, 128, 32, 12), (3, 1, 64, 1), (65, 64, 64, 1)):
        q, k, v = floats(random, m, d), floats(random, n, d), floats(random, n, d)
        yield tuple(x.astype(np.float16) for x in (q * scale, k, v))


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def attention(Q, K, V, block_M: int = 64, block_N: int = 64):
    M, N, D = T.const("M, N, D")
    Q: T.Tensor((M, D), T.float16)
    K: T.Tensor((N, D), T.float16)
    V: T.Tensor((N, D), T.float16)
    Out = T.empty((M, D), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        Q_tile = T.alloc_shared((block_M, D), T.float16)
        K_tile = T.alloc_shared((block_N, D), T.float16)
        V_tile = T.alloc_shared((block_N, D), T.float16)
        scores = T.alloc_fragment((block_M, block_N), T.float32)
        weights = T.alloc_fragment((block_M, block_N), T.float16)
        out = T.alloc_fragment((block_M, D), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        before = T.alloc_fragment((block_M,), T.float32)
        part = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(Q[bx * block_M, 0], Q_tile)
        T.clear(out)
        T.clear(total)
        T.fill(top, -T.infinity(T.float32))
        for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):
            T.copy(K[k * block_N, 0], K_tile)
            T.copy(V[k * block_N, 0], V_tile)
            T.clear(scores)
            T.gemm(Q_tile, K_tile, scores, transpose_B=True)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp((scores[i, j] - top[i]) * (1.0 / D) ** 0.5)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(block_M):
                total[i] += part[i]
            T.copy(scores, weights)
            T.gemm(weights, V_tile, out)
        for i, j in T.Parallel(block_M, D):
            out[i, j] /= total[i]
        T.copy(out, Out[bx * block_M, 0])
    return Out
"""

EXERCISE = Exercise(
    name="attention",
    title="Flash attention",
    track="attention",
    task="""
        A block keeps one tile of queries and goes over the keys and values tile by tile.
        Maximum, sum and result are kept up to date, as in online_softmax, so the M × N scores
        never leave the chip.

        Two things are missing in the starter: what was summed up with an old maximum is not
        corrected, neither `total` nor `out`; and keys past the edge count, with a score of 0.
    """,
    uses=("language.md#tile-operations", "language.md#matrix-products", "language.md#loops"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "attention",
        spec,
        cases,
        (OnlyArguments("no scores in global memory"),
         Decided("tensor cores compute both products", without_tensor_cores,
                 "Multiply tiles with T.gemm.")),
        rtol=4e-3,
        atol=4e-3,
    ),
    hints=(
        Hint("For keys past the edge the score must be minus infinity. T.gemm adds to what the "
             "scores hold, so they can begin as 0 or as minus infinity."),
        Hint("The correction of row i is T.exp((before[i] - top[i]) * (1.0 / D) ** 0.5): multiply "
             "total[i] by it before adding part[i], and out[i, j] before the second product."),
        Hint("Three places change.",
             (("            T.clear(scores)\n",
               "            for i, j in T.Parallel(block_M, block_N):\n"
               "                inside = k * block_N + j < N\n"
               "                scores[i, j] = T.if_then_else(inside, 0, -T.infinity(T.float32))"
               "\n"),
              ("                total[i] += part[i]\n",
               "                before[i] = T.exp((before[i] - top[i]) * (1.0 / D) ** 0.5)\n"
               "                total[i] = total[i] * before[i] + part[i]\n"
               "            for i, j in T.Parallel(block_M, D):\n"
               "                out[i, j] *= before[i]\n"))),
    ),
    said="case_studies/flash_attention.py adds heads, batches and exp2.",
)  # fmt: skip
