"""Judge warnings: the same pattern may cost most of the time or none."""

from __future__ import annotations

from typing import Any

from tileprof.analyzer import Finding
from tileprof.learn.answers import AnswerJudge, Question, same
from tileprof.learn.exercise import Attempt, Exercise, Hint
from tileprof.learn.stored import report

FILE = "stalls.tprof.gz"
TIMES = {
    "transpose": (0.1404, 0.1389),
    "scale": (0.9093, 0.0939),
    "convert": (0.3711, 0.3695),
    "softmax": (0.0758, 0.0659),
}
"""Times in ms on an H200 with and without what was warned of, from the sets of planted defects
(`benchmarks/results/plant-dev.json`): median of 15 rounds."""
WORTH = 1.05
"""Gain from which mending counts as worth it: several times what such a measurement varies."""


def finding(severity: str) -> Finding:
    """Return the finding about bank conflicts that has a severity."""
    (found,) = (
        each
        for each in report(FILE).findings
        if each.rule == "bank-conflict" and each.severity == severity
    )
    return found


def line() -> int:
    """Return the line of the conflicts that cost time."""
    place = finding("suggestion").place.location
    assert place is not None
    return place.line


def wrong_real(answer: Any, attempt: Attempt) -> str:
    """Compare with the measured times."""
    right = {name for name, (with_it, without) in TIMES.items() if with_it / without >= WORTH}
    given = set(answer)
    if unknown := given - set(TIMES):
        return f"There is no kernel {sorted(unknown)} in the table."
    if given == right:
        return ""
    wrong = sorted(given ^ right)[0]
    return f"Divide the two times of `{wrong}`, and look again."


STARTER = """
# Recording: warning.tprof
COSTS = None  # name of the kernel whose bank conflicts cost time
LINE = None  # the line of its source where they are
HARMLESS = None  # name of the kernel whose bank conflicts cost nothing

# Table: names of the kernels where mending the warning is worth it, as {"this", "that"}
REAL = None
"""

EXERCISE = Exercise(
    name="judge_warning",
    title="Is this warning a real problem?",
    track="reading",
    task="""
        A compiler warns of what may be slow. Whether it is slow depends on what the kernel waits
        for, and only a measurement shows that. warning.tprof is a recording of small kernels on an
        H200, with samples of the instructions that warps wait at. Two of its kernels have bank
        conflicts: tileprof report warning.tprof -i bank.

        Warnings about four other kernels, and their times on an H200 before and after each was
        mended:

          transpose   load tile: 8-way bank conflict                     0.1404 → 0.1389 ms
          scale       load X: lanes of a warp are apart in memory        0.9093 → 0.0939 ms
          convert     load X: 8 bytes a thread where 16 would do         0.3711 → 0.3695 ms
          softmax     load X: 2 bytes a thread where 16 would do         0.0758 → 0.0659 ms

        Mending is worth it here from 1.05× on.
    """,
    uses=("report.md#severities", "report.md#kinds-of-evidence"),
    starter=STARTER,
    data={"warning.tprof": FILE},
    judge=AnswerJudge(
        "judge_warning",
        (
            Question("COSTS", "the kernel of the recording whose bank conflicts cost time",
                     same(lambda: finding("suggestion").place.kernel,
                          "A finding that costs time has a gain and samples behind it.")),
            Question("LINE", "the line of its source where they are",
                     same(line, "It stands in the finding's `where`, behind the file.")),
            Question("HARMLESS", "the kernel of the recording whose bank conflicts cost nothing",
                     same(lambda: finding("ignore").place.kernel,
                          "Findings without a gain are shown with -i.")),
            Question("REAL", "the kernels of the table where mending is worth it", wrong_real),
        ),
    ),
    hints=(
        Hint("The report sorts by what a change brings: `suggestion` has a gain, `ignore` says "
             "that the pattern is present but off the critical path."),
        Hint("For the table: time before by time after. The transposition waits for memory, so its "
             "conflicts are hidden behind that."),
        Hint("Read off:",
             (("COSTS = None  # name of the kernel whose bank conflicts cost time",
               'COSTS = "bank_conflict"'),
              ("LINE = None  # the line of its source where they are", "LINE = 34"),
              ("HARMLESS = None  # name of the kernel whose bank conflicts cost nothing",
               'HARMLESS = "copy_wait"'),
              ("REAL = None", 'REAL = {"scale", "softmax"}'))),
    ),
    said="docs/advice-accuracy.md shows how often the report judges right, by such measurements.",
)  # fmt: skip
