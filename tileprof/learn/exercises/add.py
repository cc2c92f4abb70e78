"""Add two vectors whose length is no multiple of the block."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(A: Array, B: Array) -> Array:
    """Take A and B, float32[N]; return C, float32[N]."""
    return A + B


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Lengths around the block's, and one that is shorter than a block."""
    for n in (1000, 128, 129, 1, 127):
        yield floats(random, n), floats(random, n)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def add(A, B, block: int = 128):
    N = T.const("N")
    A: T.Tensor((N,), T.float32)
    B: T.Tensor((N,), T.float32)
    C = T.empty((N,), T.float32)
    with T.Kernel(N // block, threads=128) as bx:
        for i in T.Parallel(block):
            C[i] = A[i] + B[i]
    return C
"""

EXERCISE = Exercise(
    name="add",
    title="Add two vectors",
    track="basics",
    task="""
        A kernel describes the work of one block. The grid has as many blocks as T.Kernel says, and
        `bx` is the index of the block that runs. Each block here adds `block` elements.

        The starter has two faults: which elements a block adds, and how many blocks there are. N
        need not be a multiple of `block`. Reads and writes past the end of a tensor are guarded:
        such a read gives 0, such a write is dropped.
    """,
    uses=("language.md#two-forms-of-a-kernel", "language.md#launch", "language.md#loops"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("add", spec, cases),
    hints=(
        Hint("Every block runs the same lines. Without `bx` in the index, all blocks add the first "
             "128 elements."),
        Hint("Block 0 adds the elements 0 to 127, block 1 the elements 128 to 255: block bx begins "
             "at bx * block."),
        Hint("N // block rounds down, so the last, partial block is missing. T.ceildiv rounds up.",
             (("    with T.Kernel(N // block, threads=128) as bx:",
               "    with T.Kernel(T.ceildiv(N, block), threads=128) as bx:"),
              ("            C[i] = A[i] + B[i]",
               "            C[bx * block + i] = A[bx * block + i] + B[bx * block + i]"))),
    ),
    said="Guards cost nothing where a block lies inside: the compiler branches once per block.",
)  # fmt: skip
