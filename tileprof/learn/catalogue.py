"""The exercises in their order."""

from __future__ import annotations

from pathlib import Path

from tileprof.errors import UsageError, suggestion

from .exercise import Exercise
from .exercises import (
    add,
    attention,
    bank_conflicts,
    causal,
    dequant,
    find_race,
    fuse,
    gather,
    halo,
    histogram,
    judge_warning,
    layer_norm,
    matmul,
    mend_race,
    online_softmax,
    outer_sum,
    pipeline,
    read_profile,
    row_sums,
    scan,
    softmax,
    transpose,
    why_not_tma,
)

_MODULES = (
    add, outer_sum, fuse, gather,
    row_sums, softmax, layer_norm, histogram, scan,
    matmul, pipeline, dequant,
    online_softmax, attention, causal,
    halo, find_race, mend_race,
    transpose, bank_conflicts,
    why_not_tma, read_profile, judge_warning,
)  # fmt: skip
COURSE: tuple[Exercise, ...] = tuple(module.EXERCISE for module in _MODULES)
"""All exercises, the easiest of each track first."""


def find(name: str | int) -> Exercise:
    """Return an exercise by its name, its number or its file; UsageError where there is none."""
    text = str(name)
    if text.isdigit() and 1 <= int(text) <= len(COURSE):
        return COURSE[int(text) - 1]
    stem = Path(text).stem if text.endswith(".py") else text
    for each in COURSE:
        if each.name == stem:
            return each
    raise UsageError(
        f"there is no exercise `{name}`",
        hint=f"{suggestion(stem, [each.name for each in COURSE])}`tileprof learn` lists all "
        f"{len(COURSE)}.",
    )


def number(exercise: Exercise) -> int:
    """Return the number of an exercise, from 1."""
    return COURSE.index(exercise) + 1
