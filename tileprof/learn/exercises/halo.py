"""A stencil whose tile needs the neighbours' elements."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.conditions import Proved, ReadsAtMost
from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge, Ran


def spec(A: Array) -> Array:
    """Take A, float32[N]; return B, float32[N]: A[i-1] + A[i] + A[i+1], with 0 outside of A."""
    padded = np.pad(A, 1)
    return padded[:-2] + padded[1:-1] + padded[2:]


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Several blocks, a partial one, and less than one."""
    for n in (300, 64, 65, 2):
        yield (floats(random, n),)


def needed(ran: Ran) -> int:
    """Return one read of each element, and two more for each block."""
    return len(ran.args[0]) + 2 * int(ran.watch.grids[-1][0])


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def halo(A, block: int = 64):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
        tile = T.alloc_shared((block + 2,), T.float32)
        for i in T.Parallel(block):
            tile[i + 1] = A[bx * block + i]
        for i in T.Parallel(block):
            B[bx * block + i] = tile[i] + tile[i + 1] + tile[i + 2]
    return B
"""

EXERCISE = Exercise(
    name="halo",
    title="A read of what nobody wrote",
    track="faults",
    task="""
        The tile has two elements more than the block, for its neighbours: the halo. The starter
        never fills it. On a GPU, shared memory then holds what another block left there, often 0,
        and the fault shows up months later. The interpreter stops at the first such read.

        Fill the halo. Before A[0] and past A[N - 1] there are zeros. A negative index is an error.
    """,
    uses=("language.md#memory", "language.md#finding-mistakes", "check.md#findings"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "halo",
        spec,
        cases,
        (Proved(), ReadsAtMost("A", "each element of A is read once, halos twice", needed,
                               "Read neighbours from the tile, not from A.")),
    ),
    hints=(
        Hint("tile[0] belongs to A[bx * block - 1], tile[block + 1] to A[(bx + 1) * block]."),
        Hint("T.Parallel(block + 2) can fill the whole tile from A[bx * block + i - 1]: only the "
             "first element of block 0 has a negative index."),
        Hint("T.if_then_else evaluates the read only where the index is valid.",
             (("        for i in T.Parallel(block):\n"
               "            tile[i + 1] = A[bx * block + i]\n",
               "        for i in T.Parallel(block + 2):\n"
               "            at = bx * block + i - 1\n"
               "            tile[i] = T.if_then_else(at >= 0, A[at], 0.0)\n"),)),
    ),
    said="Reads past the upper edge are guarded and give 0, so only the lower edge needs a test.",
)  # fmt: skip
