"""Read a tile in shared memory by columns, without bank conflicts."""

from __future__ import annotations

from tileprof.learn.conditions import Decided, conflicting, scattered
from tileprof.learn.exercise import Exercise, Hint
from tileprof.learn.judges import KernelJudge

from .transpose import cases, spec

STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def bank_conflicts(A, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    B = T.empty((N, M), T.float32)
    pitch = block  # elements from one row of the tile to the next
    with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
        tile = T.alloc_shared((block * pitch,), T.float32)
        for i, j in T.Parallel(block, block):
            tile[i * pitch + j] = A[by * block + i, bx * block + j]
        for j, i in T.Parallel(block, block):
            B[bx * block + j, by * block + i] = tile[i * pitch + j]
    return B
"""

EXERCISE = Exercise(
    name="bank_conflicts",
    title="Columns of a tile without bank conflicts",
    track="speed",
    task="""
        Shared memory has 32 banks of 4 bytes; address a is in bank a / 4 % 32. One request of a
        warp takes as many steps (wavefronts) as the fullest bank has different words. In the
        starter, a column of the tile lies in few banks, because rows are 128 bytes apart.

        For a buffer with two dimensions, the compiler pads or swizzles rows by itself. This one
        is flat, as in ported CUDA code: the author's indices are the layout. Change them.
    """,
    uses=("language.md#points-and-elements", "language.md#memory"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge(
        "bank_conflicts",
        spec,
        cases,
        (Decided("no access of shared memory has bank conflicts", conflicting,
                 "Change how far apart the rows of the tile are."),
         Decided("neighbouring threads access neighbouring addresses", scattered,
                 "Keep the order of the loops.")),
    ),
    hints=(
        Hint("The remark counts wavefronts a request, and says how many are needed. Which banks do "
             "tile[0 * pitch], tile[1 * pitch], tile[2 * pitch], … lie in?"),
        Hint("With a pitch of 32, all of them are in bank 0. With a pitch that has no factor in "
             "common with 32, they are in 32 different banks."),
        Hint("One element of padding for each row.",
             (("    pitch = block  # elements from one row of the tile to the next",
               "    pitch = block + 1  # elements from one row of the tile to the next"),)),
    ),
    said="Or declare the tile with two dimensions, T.alloc_shared((block, block), …), and let the "
    "compiler choose.",
)  # fmt: skip
