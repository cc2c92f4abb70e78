"""`benchmarks.programs_tried`: when the gain of a program counts as had."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from benchmarks.programs.catalog import PROGRAMS
from benchmarks.programs_tried import CHANGES, judged, part, summary, true_gains
from tileprof.analyzer.fixes import SETTINGS


def row(*trials: tuple[str, float]) -> dict[str, Any]:
    """A row of trials: their verdicts and speed-ups."""
    return {
        "program": "some",
        "trials": [{"verdict": said, "measured": {"speedup": gain}} for said, gain in trials],
    }


@pytest.mark.parametrize(
    ("trials", "had"),
    [
        ([("kept", 1.41)], True),
        ([("kept", 1.39)], False),
        ([("kept", 1.1), ("kept", 1.5)], True),
        ([("different", 2.0), ("undecided", 1.5)], False),
        ([], False),
    ],
)
def test_kept_gain_of_four_fifths_counts_as_had(trials: list[Any], had: bool) -> None:
    """Of 1.5x, 1.4x have to be kept; what was not kept counts for nothing."""
    assert judged(row(*trials), {"compile": 1.5, "tf32": 1.2})["had"] is had


def test_programs_without_a_gain_are_not_eligible() -> None:
    """Nothing that `try` can do brings 5 %: the program does not count."""
    rows = [judged(row(("kept", 1.3)), {"tf32": 1.04}), judged(row(), {})]
    rows += [judged(row(("kept", 1.3)), {"tf32": 1.3})]
    assert [each["had"] for each in rows] == [None, None, True]
    assert summary(rows) == {"programs": 3, "eligible": 1, "had": 1, "share": 1.0}


def test_eligible_programs_come_first_in_each_part() -> None:
    """All parts together have every program once."""
    true = {each.name: {"compile": 1.3} for each in PROGRAMS[5:9]}
    parts = [part(PROGRAMS, true, f"{number}/3") for number in (1, 2, 3)]
    assert sorted(e.name for each in parts for e in each) == sorted(e.name for e in PROGRAMS)
    assert all(each[0].name in true for each in parts)


def test_truth_is_of_right_results_that_try_can_make(tmp_path: Path) -> None:
    """A wrong result, and a change that `try` does not know, are no truth."""
    changes = {
        "compile": {"gain": 1.3, "right": True},
        "tf32": {"gain": 2.0, "right": False},
        "larger-batch": {"gain": 3.0, "right": True},
        "workers": {"error": "ended"},
    }
    path = measured(tmp_path, "2026-11-27", {"program": "some", "changes": changes})
    assert true_gains([path]) == {"some": {"compile": 1.3}}


def test_later_measurement_replaces_an_earlier_one_unless_it_failed(tmp_path: Path) -> None:
    """A program's truth is of its latest run that timed it, in whatever order files come."""

    def gains(gain: float) -> dict[str, Any]:
        return {"program": "some", "changes": {"tf32": {"gain": gain, "right": True}}}

    first = measured(tmp_path, "2026-11-27", gains(1.5))
    later = measured(tmp_path, "2026-11-29", gains(1.2))
    failed = measured(tmp_path, "2026-11-30", {**gains(9.0), "error": "ended"})
    assert true_gains([failed, later, first]) == {"some": {"tf32": 1.2}}


def measured(folder: Path, date: str, row: dict[str, Any]) -> Path:
    """Write a file of results of one program."""
    path = folder / f"programs-{date}.json"
    path.write_text(json.dumps({"circumstances": {"date": date}, "rows": [row]}))
    return path


def test_codes_are_those_of_fixes() -> None:
    """All settings but cuDNN's trials and gradients to None have a change by hand."""
    assert set(SETTINGS) - set(CHANGES) == {"cudnn-benchmark", "zero-grad"}
