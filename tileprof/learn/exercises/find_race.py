"""Name the two lines that race."""

from __future__ import annotations

from typing import Any

import numpy as np

from tileprof.checker import check
from tileprof.learn.answers import AnswerJudge, Question
from tileprof.learn.exercise import Attempt, Exercise, Hint


def wrong_lines(answer: Any, attempt: Attempt) -> str:
    """Return why two lines are not those of a race that the checker finds."""
    lines = {int(line) for line in answer}
    table = np.ones((6, 96), np.float32)
    report = check(attempt.members["smooth"], table, np.ones(96, np.float32))
    races = [
        {each.location.line for each in finding.accesses if each.location}
        for finding in report.findings
        if finding.code == "race-between-blocks"
    ]
    if not races:
        return "`tileprof check` finds no race in your file: put the kernel back as it was."
    if lines in races:
        return ""
    met = any(lines & race for race in races)
    return (
        "One of the lines takes part in a race, but with another line."
        if met
        else "No two blocks access the same element in these lines, one of them writing it."
    )


STARTER = """
import tileprof
import tileprof.lang as T

LINES = None  # the numbers of two lines of this file, as {12, 34}


@tileprof.jit
def smooth(A, Weight, block: int = 32):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), T.float32)
    Weight: T.Tensor((N,), T.float32)
    with T.Kernel(T.ceildiv(N, block), M, threads=32) as (bx, by):
        tile = T.alloc_fragment((block,), T.float32)
        for j in T.Parallel(block):
            tile[j] = A[by, bx * block + j]
        for j in T.Parallel(block):
            tile[j] *= Weight[bx * block + j]
        for j in T.Parallel(block):
            if bx * block + j + 1 < N:
                tile[j] += A[by, bx * block + j + 1]
        for j in T.Parallel(block):
            A[by, bx * block + j] = tile[j] * 0.5
"""

EXERCISE = Exercise(
    name="find_race",
    title="Two lines that race",
    track="faults",
    task="""
        The kernel replaces each element by the mean of its weighted self and its right neighbour.
        Some runs on a GPU give other results than others. Which two lines race: two blocks access
        one element there, and one of them writes it?

        Read the indices, or ask: tileprof check find_race.py:smooth --set M=6 --set N=96. Write the
        numbers of the two lines to LINES.
    """,
    uses=("check.md#findings", "language.md#launch"),
    starter=STARTER,
    judge=AnswerJudge(
        "find_race", (Question("LINES", "the numbers of the two lines that race", wrong_lines),)
    ),
    hints=(
        Hint("Only A is written, and in one line. Which reads of A may meet a write of another "
             "block?"),
        Hint("A block writes the elements bx * block to bx * block + block - 1 of row `by`. The "
             "last point of one of the reads goes one further."),
        Hint("The read of the right neighbour and the write.",
             (("LINES = None  # the numbers of two lines of this file, as {12, 34}",
               "LINES = {27, 29}"),)),
    ),
    said="Next: mend a race of this kind.",
)  # fmt: skip
