"""Softmax of rows that do not fit on the chip: maximum and sum are kept up to date together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import ReadOnce
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge

from .softmax import spec


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Several tiles with the maximum late; all values far below 0, beside a partial tile."""
    yield (np.sort(floats(random, 5, 300) * 20, axis=1),)
    yield (floats(random, 9, 130) - 500,)
    yield (floats(random, 1, 3),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def online_softmax(X, block_M: int = 8, block_N: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        T.annotate_safe_value({X: -T.infinity(T.float32)})
        tile = T.alloc_fragment((block_M, block_N), T.float32)
        top = T.alloc_fragment((block_M,), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.fill(top, -T.infinity(T.float32))
        T.clear(total)
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(X[bx * block_M, k * block_N], tile)
            T.reduce_max(tile, top, dim=1, clear=False)
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(X[bx * block_M, k * block_N], tile)
            for i, j in T.Parallel(block_M, block_N):
                tile[i, j] = T.exp(tile[i, j] - top[i])
            T.reduce_sum(tile, total, dim=1, clear=False)
        for k in T.serial(T.ceildiv(N, block_N)):
            for i, j in T.Parallel(block_M, block_N):
                row, column = bx * block_M + i, k * block_N + j
                Y[row, column] = T.exp(X[row, column] - top[i]) / total[i]
    return Y
"""

EXERCISE = Exercise(
    name="online_softmax",
    title="Maximum and sum in one pass",
    track="attention",
    task="""
        Rows are longer than a tile. The starter reads X three times: for the maximum, for the sum,
        for the result. One pass can keep both: when a tile brings a new maximum, the sum so far,
        which was taken with the old one, is multiplied by exp(old - new).

        Elements past the edge read as minus infinity here (T.annotate_safe_value), so they change
        neither maximum nor sum.
    """,
    uses=("language.md#tile-operations", "language.md#bounds", "language.md#hints"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("online_softmax", spec, cases, (ReadOnce("X", 2),), rtol=1e-4, atol=1e-7),
    hints=(
        Hint("In one iteration: keep a copy of `top` as it was, take the new maximum, correct "
             "`total`, add this tile's exponentials."),
        Hint("The correction is T.exp(before[i] - top[i]). In the first iteration it is exp(-inf), "
             "which is 0, and the sum is 0 too."),
        Hint("The first two loops become one.",
             (("        T.clear(total)\n",
               "        T.clear(total)\n"
               "        before = T.alloc_fragment((block_M,), T.float32)\n"),
              ("            T.reduce_max(tile, top, dim=1, clear=False)\n"
               "        for k in T.serial(T.ceildiv(N, block_N)):\n"
               "            T.copy(X[bx * block_M, k * block_N], tile)\n",
               "            T.copy(top, before)\n"
               "            T.reduce_max(tile, top, dim=1, clear=False)\n"
               "            for i in T.Parallel(block_M):\n"
               "                total[i] *= T.exp(before[i] - top[i])\n"))),
    ),
    said="This correction is the idea of flash attention, the next exercise.",
)  # fmt: skip
