"""Gather rows of a table by indices, some of which name no row."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tileprof.learn.exercise import Array, Exercise, Hint, floats
from tileprof.learn.judges import KernelJudge


def spec(Table: Array, Index: Array) -> Array:
    """Take Table, float32[V, N], and Index, int32[M]; return Rows, float32[M, N]."""
    valid = (Index >= 0) & (Index < len(Table))
    return np.where(valid[:, None], Table[np.where(valid, Index, 0)], np.float32(0))


def cases(random: np.random.Generator) -> Iterator[tuple[Array, ...]]:
    """Indices inside, of padding (-1), and past the end."""
    for v, n, m in ((10, 40, 33), (1, 64, 5), (7, 1, 64)):
        yield floats(random, v, n), random.integers(-1, v + 2, m, dtype=np.int32)


STARTER = """
import tileprof
import tileprof.lang as T


@tileprof.jit
def gather(Table, Index, block_N: int = 64):
    V, N, M = T.const("V, N, M")
    Table: T.Tensor((V, N), T.float32)
    Index: T.Tensor((M,), T.int32)
    Rows = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(N, block_N), M, threads=64) as (bx, by):
        row = Index[by]
        for j in T.Parallel(block_N):
            Rows[by, bx * block_N + j] = Table[row, bx * block_N + j]
    return Rows
"""

EXERCISE = Exercise(
    name="gather",
    title="Rows of a table, by index",
    track="basics",
    task="""
        Row i of the result is row Index[i] of the table, as in an embedding. Where an index
        names no row (padding is -1), the result is 0.

        A read past the upper end of a tensor gives 0. A negative index is an error: the
        interpreter stops at it, and a GPU reads what lies before the tensor.
    """,
    uses=("language.md#bounds", "language.md#control-flow"),
    starter=STARTER,
    spec=spec,
    judge=KernelJudge("gather", spec, cases),
    hints=(
        Hint("The error names the access and the block. Which index does that block read?"),
        Hint("T.if_then_else(condition, a, b) evaluates `a` only where the condition holds, so it "
             "can stand around a read."),
        Hint("Read the table only where row >= 0.",
             (("            Rows[by, bx * block_N + j] = Table[row, bx * block_N + j]",
               "            value = T.if_then_else(row >= 0, Table[row, bx * block_N + j], 0.0)\n"
               "            Rows[by, bx * block_N + j] = value"),)),
    ),
    said="`tileprof check` would explore this kernel, not prove it: its index is data.",
)  # fmt: skip
