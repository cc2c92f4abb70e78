"""Softmax of rows, safe for large values, with one read of each element."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import ReadOnce
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(X: Array) -> Array:
    """Take X, float32[M, N]; return Y, float32[M, N]."""
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Ordinary rows, values whose exponential overflows, and rows of one element."""
    yield (floats(random, 10, 200),)
    yield (floats(random, 5, 33) * 300 + 100,)
    yield (floats(random, 3, 64) - 500,)
    yield (floats(random, 4, 1),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def softmax(X, block_M: int = 4):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        row = T.alloc_fragment((block_M, N), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        T.copy(X[bx * block_M, 0], row)
        for i, j in T.Parallel(block_M, N):
            row[i, j] = T.exp(row[i, j])
        T.reduce_sum(row, total, dim=1)
        for i, j in T.Parallel(block_M, N):
            row[i, j] /= total[i]
        T.copy(row, Y[bx * block_M, 0])
    return Y
"""

EXERCISE = Exercise(
    name="softmax",
    title="Softmax that does not overflow",
    track="reductions",
    task="""
        Each row is divided by the sum of its exponentials. In float32, exp(89) is infinite, and
        infinity by infinity is NaN; exp(-104) is 0, and 0 by 0 is NaN. The specification takes the
        row's maximum away first, which changes no result. The starter does not.
    """,
    uses=("language.md#tile-operations", "language.md#scalars"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("softmax", spec, cases, (ReadOnce("X"),), rtol=1e-4, atol=1e-7),
    hints=(
        Hint("T.reduce_max(src, dst, dim=1) gives the maximum of each row; dst has the shape of "
             "`total`."),
        Hint("Allocate a fragment `top` beside `total`, fill it before the exponentials, and "
             "subtract top[i] inside of T.exp."),
        Hint("The row stays in the fragment, so X is still read once.",
             (("        T.copy(X[bx * block_M, 0], row)",
               "        top = T.alloc_fragment((block_M,), T.float32)\n"
               "        T.copy(X[bx * block_M, 0], row)\n"
               "        T.reduce_max(row, top, dim=1)"),
              ("            row[i, j] = T.exp(row[i, j])",
               "            row[i, j] = T.exp(row[i, j] - top[i])"))),
    ),
    said="A GPU computes exp2 in fewer instructions than exp: multiply by log2(e) once.",
)  # fmt: skip
