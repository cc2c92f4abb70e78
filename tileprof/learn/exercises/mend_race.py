"""A stencil in place, in which blocks read what their neighbours overwrite."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Proved
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(A: Array) -> Array:
    """Take A, float32[N]; return B, float32[N]: two steps; past the end of A are zeros."""

    def step(x: Array) -> Array:
        return x + np.append(x[1:], np.float32(0))

    return step(step(A))


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Several blocks, a partial one, and a single block."""
    for n in (200, 65, 64, 1):
        yield (floats(random, n),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def mend_race(A, block: int = 64):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        for i in T.Parallel(block):
            B[bx * block + i] = A[bx * block + i] + A[bx * block + i + 1]
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        tile = T.alloc_fragment((block,), T.float32)
        for i in T.Parallel(block):
            tile[i] = B[bx * block + i] + B[bx * block + i + 1]
        T.copy(tile, B[bx * block])
    return B
"""

EXERCISE = Exercise(
    name="mend_race",
    title="Mend a race between blocks",
    track="faults",
    task="""
        The starter takes two steps, one launch after the other. The second step reads and writes
        B. Blocks of one launch run in any order, so a block may read what its neighbour has already
        overwritten. The interpreter runs blocks in order, and the values are often right. So
        `tileprof check` judges: it must find no race, and prove that there is none.
    """,
    uses=("check.md#findings", "language.md#memory"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("mend_race", spec, cases, (Proved(("races",), by_proof=True),)),
    hints=(
        Hint("The check shows two accesses of one element: a block reads the first element of its "
             "neighbour's part, and the neighbour writes it."),
        Hint("Launches run one after the other, but blocks of one launch do not wait for each "
             "other. The second launch must not write the tensor that it reads."),
        Hint("Let the first launch write a tensor of its own: T.alloc_global is memory that one "
             "launch passes to the next.",
             (("    B = T.empty((N,), T.float32)",
               "    B = T.empty((N,), T.float32)\n    once = T.alloc_global((N,), T.float32)"),
              ("            B[bx * block + i] = A[bx * block + i] + A[bx * block + i + 1]",
               "            once[bx * block + i] = A[bx * block + i] + A[bx * block + i + 1]"),
              ("            tile[i] = B[bx * block + i] + B[bx * block + i + 1]",
               "            tile[i] = once[bx * block + i] + once[bx * block + i + 1]"))),
    ),
    said="The proof holds for all inputs and all numbers of blocks; a test run shows one of them.",
)  # fmt: skip
