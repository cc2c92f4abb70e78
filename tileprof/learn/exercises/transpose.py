"""Transpose a matrix so that both sides are read and written row by row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Decided, scattered
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(A: Array) -> Array:
    """Take A, float32[M, N]; return B, float32[N, M]."""
    return A.T.copy()


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Partial tiles on both sides, and whole ones."""
    for m, n in ((100, 68), (64, 64), (1, 40)):
        yield (floats(random, m, n),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def transpose(A, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((N, M), T.float32)
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        for i, j in T.Parallel(block, block):
            B[bx * block + j, by * block + i] = A[by * block + i, bx * block + j]
    return B
"""

EXERCISE = Exercise(
    name="transpose",
    title="Both sides row by row",
    track="speed",
    task="""
        A GPU moves global memory in sectors of 32 bytes. Where the 32 threads of a warp access
        neighbouring addresses, all bytes of a sector are used. The starter's values are right, but
        it reads rows and writes columns: each float that it writes touches a sector of its own.

        Bring a tile to shared memory row by row, and write it row by row from there.
    """,
    uses=("language.md#points-and-elements", "language.md#memory"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "transpose",
        spec,
        cases,
        (Decided("neighbouring threads access neighbouring addresses", scattered,
                 "The last index of each tensor should follow the last loop variable."),),
    ),
    hints=(
        Hint("The compiler gives neighbouring points of the last loop variable to neighbouring "
             "threads. With the loops (i, j), it can suit A or B, but not both."),
        Hint("Two loops, each with its own order: T.copy from A to a shared tile, then "
             "T.Parallel over (j, i) that writes B[…, by * block + i] from tile[i, j]."),
        Hint("Shared memory has no sectors; what it has instead is the next exercise.",
             (("        for i, j in T.Parallel(block, block):\n"
               "            B[bx * block + j, by * block + i] = A[by * block + i, bx * block + j]",
               "        tile = T.alloc_shared((block, block), T.float32)\n"
               "        T.copy(A[by * block, bx * block], tile)\n"
               "        for j, i in T.Parallel(block, block):\n"
               "            B[bx * block + j, by * block + i] = tile[i, j]"),)),
    ),
    said="The compiler padded the tile's rows by one element: its remark says `pad=1`, and why.",
)  # fmt: skip
