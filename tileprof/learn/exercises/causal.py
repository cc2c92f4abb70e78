"""Causal attention that skips the tiles above the diagonal."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import ReadsAtMost
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge, Ran


def spec(Q: Array, K: Array, V: Array) -> Array:
    """Take Q, K and V, float16[N, D]; return O, float32[N, D]. Query i sees the keys 0 to i."""
    q, k, v = (x.astype(np.float32) for x in (Q, K, V))
    scores = q @ k.T / np.sqrt(q.shape[1])
    scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) @ v).astype(np.float32)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Many tiles, a partial one, and a single query."""
    for n, d in ((300, 32), (129, 32), (64, 64), (1, 32)):
        yield tuple(floats(random, n, d, dtype=np.float16) for _ in range(3))


def needed(ran: Ran) -> int:
    """Return 0.75 of the reads of all keys by all blocks; few blocks need nearly all of them."""
    blocks, (length, width) = math.prod(ran.watch.grids[-1]), ran.args[1].shape
    return int(length * width * blocks * (0.75 if blocks >= 4 else 1))


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def causal(Q, K, V, block_M: int = 32, block_N: int = 32):
    N, D = T.const("N, D")
    Q: T.Tensor((N, D), T.float16)
    K: T.Tensor((N, D), T.float16)
    V: T.Tensor((N, D), T.float16)
    Out = T.empty((N, D), T.float32)
    with T.Kernel(T.ceildiv(N, block_M), threads=128) as bx:
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
            for i, j in T.Parallel(block_M, block_N):
                inside = k * block_N + j < N
                scores[i, j] = T.if_then_else(inside, 0, -T.infinity(T.float32))
            T.gemm(Q_tile, K_tile, scores, transpose_B=True)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i, j in T.Parallel(block_M, block_N):
                scores[i, j] = T.exp((scores[i, j] - top[i]) * (1.0 / D) ** 0.5)
            T.reduce_sum(scores, part, dim=1)
            for i in T.Parallel(block_M):
                before[i] = T.exp((before[i] - top[i]) * (1.0 / D) ** 0.5)
                total[i] = total[i] * before[i] + part[i]
            for i, j in T.Parallel(block_M, D):
                out[i, j] *= before[i]
            T.copy(scores, weights)
            T.gemm(weights, V_tile, out)
        for i, j in T.Parallel(block_M, D):
            out[i, j] /= total[i]
        T.copy(out, Out[bx * block_M, 0])
    return Out
"""

EXERCISE = Exercise(
    name="causal",
    title="Causal attention, without the tiles that nobody sees",
    track="attention",
    task="""
        In a causal model, query i sees the keys 0 to i. The starter is attention without a mask.
        With a mask alone, half of the work is thrown away: tiles above the diagonal have weights of
        0. A block of queries needs the tiles of keys up to its own last query only.
    """,
    uses=("language.md#loops", "language.md#scalars", "gpu.md#masks-in-pipelined-loops"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "causal",
        spec,
        cases,
        (ReadsAtMost("K", "tiles of keys above the diagonal are not read", needed,
                     "Let the number of iterations depend on the block: T.min(all tiles, tiles up "
                     "to the block's last query)."),),
        rtol=4e-3,
        atol=4e-3,
    ),
    hints=(
        Hint("Add to the condition of the scores: key k * block_N + j is seen by query "
             "bx * block_M + i where it is not greater. T.all_of(a, b) is `and`."),
        Hint("The last query of the block is (bx + 1) * block_M - 1, so the block needs "
             "T.ceildiv((bx + 1) * block_M, block_N) tiles, and never more than there are."),
        Hint("A loop's number of iterations may depend on the block.",
             (("                inside = k * block_N + j < N\n",
               "                query, key = bx * block_M + i, k * block_N + j\n"
               "                inside = T.all_of(key < N, key <= query)\n"),
              ("        for k in T.Pipelined(T.ceildiv(N, block_N), num_stages=2):\n",
               "        seen = T.ceildiv((bx + 1) * block_M, block_N)\n"
               "        tiles = T.min(T.ceildiv(N, block_N), seen)\n"
               "        for k in T.Pipelined(tiles, num_stages=2):\n"))),
    ),
    said="On a GPU the compiler peels the mask: only tiles on the diagonal test it.",
)  # fmt: skip
