"""Count values with atomics: many blocks add to the same elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.exercise import Array, Exercise, Hint
from tileprof.learn.judges import KernelJudge

BINS = 64


def spec(X: Array) -> Array:
    """Take X, int32[N], of values 0 to 63; return Counts, int32[64]."""
    return np.bincount(X, minlength=64).astype(np.int32)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Lengths with and without a partial block; all values alike."""
    for n in (1000, 256, 3):
        yield (random.integers(0, BINS, n, dtype=np.int32),)
    yield (np.full(300, 5, np.int32),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def histogram(X, block: int = 128):
    N = T.const("N")
    X: T.Tensor((N,), T.int32)
    Counts = T.empty((64,), T.int32)
    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
        for i in T.Parallel(block):
            Counts[X[bx * block + i]] += 1
    return Counts
"""

EXERCISE = Exercise(
    name="histogram",
    title="Count values with atomics",
    track="reductions",
    task="""
        Each value counts in its own bin. Points of a T.Parallel and blocks run in any order, so two
        of them may read a bin at the same time, add 1 each, and write the same number: one count is
        lost. T.atomic_add reads, adds and writes in one step.

        The starter has two more faults. What does T.empty hold at first? What does the last block
        read past the end?
    """,
    uses=("language.md#tile-operations", "language.md#memory", "language.md#launch"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("histogram", spec, cases),
    hints=(
        Hint("Memory of T.empty is not initialised. A launch of its own can clear it, because "
             "launches run one after the other."),
        Hint("T.atomic_add(Counts[bin], 1) counts. Blocks that only add atomically do not race."),
        Hint("A read past the end gives 0, which is a bin: count only where bx * block + i < N.",
             (("    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:\n",
               "    with T.Kernel(1, threads=64) as bx:\n"
               "        for i in T.Parallel(64):\n"
               "            Counts[i] = 0\n"
               "    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:\n"),
              ("            Counts[X[bx * block + i]] += 1",
               "            if bx * block + i < N:\n"
               "                T.atomic_add(Counts[X[bx * block + i]], 1)"))),
    ),
    said="Faster on a GPU: count in shared memory first, and add each block's 64 sums at the end.",
)  # fmt: skip
