"""Which cases of large families run always, and which in a sweep alone.

Every run takes a spread of a family's cases, chosen for what they cover: each op, pass, rule or
form is in one of them. `python -m pytest -m sweep` runs the others, and tests that repeat at scale
what smaller ones look at. The mark on a function says which cases run always:

- `spread("a", "b")`: those two;
- `spread(without=["c"])`: all but this one;
- `spread`: as few as meet each value of each parameter once;
- `sweep`: none.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

SWEEP = "TILEPROF_TEST_SWEEP"
"""Environment variable that is set, and not empty, in a run that has tests marked `sweep`."""


def examples(count: int) -> int:
    """Return how many examples Hypothesis draws: `count` in a sweep, else a quarter, at least two.

    Each run draws others, so few of them find in some runs what many find in one.
    """
    return count if os.environ.get(SWEEP) else max(2, count // 4)


def beyond_spread(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the cases that only a sweep runs, of functions marked `spread`.

    UsageError where a mark names a case that its function does not have.
    """
    families: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("spread") and not item.get_closest_marker("gpu"):
            families.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return [case for cases in families.values() for case in _beyond(cases)]


def _beyond(cases: list[pytest.Item]) -> list[pytest.Item]:
    mark = cases[0].get_closest_marker("spread")
    assert mark is not None
    named = (*mark.args, *mark.kwargs.get("without", ()))
    if not named:
        return _beyond_each_value(cases)
    names = {case.callspec.id: case for case in cases}  # type: ignore[attr-defined]
    unknown = [name for name in named if name not in names]
    # A case that the command line names is collected without the others.
    if unknown and len(cases) > 1:
        raise pytest.UsageError(f"{cases[0].nodeid}: spread names {unknown}, cases are {[*names]}")
    left_out = mark.kwargs.get("without") or [name for name in names if name not in mark.args]
    return [names[name] for name in left_out if name in names]


def _beyond_each_value(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return what is left of a family once each value of each parameter is met."""
    left = [(_values(case), case) for case in cases]
    met: set[tuple[str, str]] = set()
    while True:
        best = max(left, key=lambda each: len(each[0] - met), default=None)
        if best is None or best[0] <= met:
            return [case for _, case in left]
        met |= best[0]
        left.remove(best)


def _values(case: pytest.Item) -> set[tuple[str, str]]:
    """Return the parameters of a case with their values, as text that is the same in all workers
    where these are numbers, names or types."""
    return {(name, repr(value)) for name, value in case.callspec.params.items()}  # type: ignore[attr-defined]
