"""Running sums of a vector that is longer than a block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.exercise import Array, Exercise, Hint
from tileprof.learn.judges import KernelJudge


def spec(A: Array) -> Array:
    """Take A, int32[N]; return C, int32[N]."""
    return np.cumsum(A, dtype=np.int32)


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Several blocks, one block, and a partial one."""
    for n in (1000, 128, 129, 5):
        yield (random.integers(-9, 10, n, dtype=np.int32),)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def scan(A, block: int = 128):
    N = T.const("N")
    A: T.Tensor((N,), T.int32)
    blocks = T.ceildiv(N, block)
    C = T.empty((N,), T.int32)
    Ends = T.alloc_global((blocks,), T.int32)
    with T.Kernel(blocks, threads=128) as bx:
        tile = T.alloc_shared((block,), T.int32)
        T.copy(A[bx * block], tile)
        T.cumsum(tile)
        T.copy(tile, C[bx * block])
        Ends[bx] = tile[block - 1]
    with T.Kernel(blocks, threads=128) as bx:
        before = 0
        for i in T.Parallel(block):
            if bx * block + i < N:
                C[bx * block + i] = C[bx * block + i] + before
    return C
"""

EXERCISE = Exercise(
    name="scan",
    title="Running sums across blocks",
    track="reductions",
    task="""
        T.cumsum gives running sums of a tile. Blocks do not wait for each other, so no block
        can ask the one before it for its sum. Two launches can: the first writes the sum of
        each block to Ends, and the second adds to each element what all blocks before it add up
        to.

        The second launch of the starter adds 0.
    """,
    uses=("language.md#tile-operations", "language.md#loops", "language.md#memory"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("scan", spec, cases),
    hints=(
        Hint("The first block is right, and the second one begins anew: block bx misses the sum of "
             "Ends[0] to Ends[bx - 1]."),
        Hint("A loop of the kernel may end at a number that depends on the block: "
             "T.serial(bx). A name that a loop reassigns is a variable of the kernel."),
        Hint("Sum up Ends before the T.Parallel.",
             (("        before = 0\n",
               "        before = 0\n"
               "        for k in T.serial(bx):\n"
               "            before += Ends[k]\n"),)),
    ),
    said="With very many blocks, a third launch scans Ends itself.",
)  # fmt: skip
