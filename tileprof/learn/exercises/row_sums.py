"""Sum the rows of a matrix tile by tile."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import ReadOnce
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(X: Array) -> Array:
    """Take X, float32[M, N]; return S, float32[M]."""
    return X.sum(axis=1)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Rows of one tile, of several, and of less than one."""
    for m, n in ((50, 300), (32, 128), (1, 1000), (33, 7)):
        yield (floats(random, m, n),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def row_sums(X, block_M: int = 32, block_N: int = 128):
    M, N = T.const("M, N")
    X: T.Tensor((M, N), T.float32)
    S = T.empty((M,), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        tile = T.alloc_fragment((block_M, block_N), T.float32)
        total = T.alloc_fragment((block_M,), T.float32)
        for k in T.serial(T.ceildiv(N, block_N)):
            T.copy(X[bx * block_M, k * block_N], tile)
            T.reduce_sum(tile, total, dim=1)
        T.copy(total, S[bx * block_M])
    return S
"""

EXERCISE = Exercise(
    name="row_sums",
    title="Sum rows that are longer than a tile",
    track="reductions",
    task="""
        A block sums block_M rows. A row need not fit into a tile, so the block goes over it in
        steps of block_N columns. A fragment is a tile in the registers of the block's threads;
        T.copy fills it (elements past the edge are 0), T.reduce_sum adds up one dimension.

        The starter keeps only what the last tile adds up to.
    """,
    uses=("language.md#memory", "language.md#tile-operations"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("row_sums", spec, cases, (ReadOnce("X"),), rtol=1e-4, atol=1e-4),
    hints=(
        Hint("T.reduce_sum(src, dst) sets dst. Each iteration throws away the sum so far."),
        Hint("With clear=False, T.reduce_sum adds to what dst holds. Then dst must hold something "
             "before the first iteration: memory on the chip is not initialised."),
        Hint("Clear the sum before the loop, and add to it in the loop.",
             (("        for k in T.serial(T.ceildiv(N, block_N)):",
               "        T.clear(total)\n        for k in T.serial(T.ceildiv(N, block_N)):"),
              ("            T.reduce_sum(tile, total, dim=1)",
               "            T.reduce_sum(tile, total, dim=1, clear=False)"))),
    ),
    said="The compiler adds up the threads' parts once, after the loop: see its remarks "
    "(tileprof compile row_sums.py:row_sums --target sm_90a --set M=4096 --set N=4096 --emit "
    "remarks).",
)  # fmt: skip
