"""Add each element of one vector to each of another: a grid with two axes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(A: Array, B: Array) -> Array:
    """Take A, float32[M], and B, float32[N]; return C, float32[M, N]."""
    return A[:, None] + B[None, :]


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Shapes wide, tall, and smaller than a tile."""
    for m, n in ((100, 70), (16, 200), (200, 16), (1, 1), (33, 65)):
        yield floats(random, m), floats(random, n)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def outer_sum(A, B, block_M: int = 32, block_N: int = 64):
    M, N = T.const("M, N")
    A: T.Tensor((M,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
        for i, j in T.Parallel(block_M, block_N):
            C[bx * block_M + i, j] = A[bx * block_M + i] + B[j]
    return C
"""

EXERCISE = Exercise(
    name="outer_sum",
    title="A grid with two axes",
    track="basics",
    task="""
        Each block computes a tile of block_M rows and block_N columns. The starter has one axis of
        blocks, so it only computes the first block_N columns. Give the grid a second axis:
        T.Kernel(columns, rows) as (bx, by), where columns and rows are numbers of tiles.
    """,
    uses=("language.md#launch", "language.md#loops"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("outer_sum", spec, cases),
    hints=(
        Hint("T.Parallel(m, n) is already a loop over a tile with two dimensions; only the grid "
             "and the indices miss the second axis."),
        Hint("Let bx count tiles along the columns and by along the rows. A tile begins at row "
             "by * block_M and column bx * block_N."),
        Hint("The grid has T.ceildiv(N, block_N) × T.ceildiv(M, block_M) blocks.",
             (("    with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:",
               "    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as "
               "(bx, by):"),
              ("            C[bx * block_M + i, j] = A[bx * block_M + i] + B[j]",
               "            row, column = by * block_M + i, bx * block_N + j\n"
               "            C[row, column] = A[row] + B[column]"))),
    ),
    said="The first axis counts fastest: neighbouring blocks are neighbours along the columns.",
)  # fmt: skip
