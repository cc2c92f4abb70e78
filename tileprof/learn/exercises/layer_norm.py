"""Normalise rows without cancellation, with one read of each element."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import ReadOnce
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(X: Array, W: Array) -> Array:
    """Take X, float32[M, N], and W, float32[N]; return Y, float32[M, N]."""
    x = X.astype(np.float64)
    mean, variance = x.mean(axis=1, keepdims=True), x.var(axis=1, keepdims=True)
    return ((x - mean) / np.sqrt(variance + 1e-5) * W).astype(np.float32)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Rows around 0, rows far from 0, and constant rows."""
    yield floats(random, 9, 100), floats(random, 100)
    yield floats(random, 5, 64) + 1000, floats(random, 64)
    yield np.full((2, 7), 3.0, np.float32), floats(random, 7)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def layer_norm(X, W, block_M: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    W: T.Tensor((N,), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        row = T.alloc_fragment((block_M, N), T.float32)
        part = T.alloc_fragment((block_M, N), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        squares = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], row)
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            part[i, j] = row[i, j] * row[i, j]
        T.reduce_sum(part, squares, dim=1)
        for i, j in T.Parallel(block_M, N):
            mean = total[i] / N
            variance = squares[i] / N - mean * mean
            Y[bx * block_M + i, j] = (row[i, j] - mean) * T.rsqrt(variance + 1e-5) * W[j]
    return Y
"""

EXERCISE = Exercise(
    name="layer_norm",
    title="A variance that survives a large mean",
    track="reductions",
    task="""
        The starter computes the variance as mean(x²) - mean(x)². Around 1000, both are about
        1,000,000, and float32 has seven digits: their difference is mostly rounding, and may be
        negative. The specification computes the mean of (x - mean)².

        On a GPU the second formula costs no second read: the row lies in a fragment.
    """,
    uses=("language.md#tile-operations", "language.md#element-types"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("layer_norm", spec, cases, (ReadOnce("X"),), rtol=1e-3, atol=1e-3),
    hints=(
        Hint("The first test passes and the one around 1000 does not: it is the formula, not the "
             "indices."),
        Hint("`total` is complete before `part` is filled, so `part` can hold the squares of "
             "row[i, j] - total[i] / N."),
        Hint("Then `squares[i] / N` is the variance.",
             (("            part[i, j] = row[i, j] * row[i, j]",
               "            away = row[i, j] - total[i] / N\n            part[i, j] = away * away"),
              ("            variance = squares[i] / N - mean * mean",
               "            variance = squares[i] / N"))),
    ),
    said="`T.copy` fills rows past the edge with 0, so the last block divides by no zero.",
)  # fmt: skip
