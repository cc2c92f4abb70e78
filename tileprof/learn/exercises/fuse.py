"""Scale, shift and clip in one launch, with no tensor in between."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import OnlyArguments, ReadOnce
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(X: Array, Scale: Array, Bias: Array) -> Array:
    """Take X, float32[M, N], Scale and Bias, float32[N]; return Y, float32[M, N]."""
    return np.maximum(X * Scale + Bias, 0)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Shapes that are no multiples of a tile's."""
    for m, n in ((70, 100), (64, 64), (1, 3), (5, 130)):
        yield floats(random, m, n), floats(random, n), floats(random, n)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def fuse(X, Scale, Bias, block_M: int = 32, block_N: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    Scale: T.Tensor((N,), T.float32)
    Bias: T.Tensor((N,), T.float32)
    Scaled = T.alloc_global((M, N), T.float32)
    Y = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            Scaled[row, column] = X[row, column] * Scale[column] + Bias[column]
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            row, column = by * block_M + i, bx * block_N + j
            Y[row, column] = T.max(Scaled[row, column], 0)
    return Y
"""

EXERCISE = Exercise(
    name="fuse",
    title="One launch instead of two",
    track="basics",
    task="""
        The starter's values are right. But its first launch writes every element to global
        memory, and the second launch reads it back: 16 bytes are moved for each element, where
        8 are needed. A kernel that computes little is as slow as the memory, so this one takes
        twice the time.

        Compute both steps in one launch. Count for yourself: tileprof events fuse.py:fuse --set
        M=64 --set N=64.
    """,
    uses=("language.md#launch", "events.md#the-table"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("fuse", spec, cases, (OnlyArguments(), ReadOnce("X"))),
    hints=(
        Hint("What a point has computed needs no memory to be used by the same point: it is a "
             "value, as in Python."),
        Hint("Write T.max(X[…] * Scale[…] + Bias[…], 0) to Y in the first launch. Then nothing "
             "is left for the second launch and for Scaled."),
        Hint("Remove the second launch and the tensor between the two.",
             (("    Scaled = T.alloc_global((M, N), T.float32)\n", ""),
              ("            Scaled[row, column] = X[row, column] * Scale[column] + Bias[column]\n"
               "    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as "
               "(bx, by):\n"
               "        for i, j in T.Parallel(block_M, block_N):\n"
               "            row, column = by * block_M + i, bx * block_N + j\n"
               "            Y[row, column] = T.max(Scaled[row, column], 0)",
               "            scaled = X[row, column] * Scale[column] + Bias[column]\n"
               "            Y[row, column] = T.max(scaled, 0)"))),
    ),
    said="The report of a profile finds such pairs of kernels by itself: docs/report.md, Rules.",
)  # fmt: skip
