"""Rows of the benchmarks of pruning and of TileLang's tuner, from times that are given."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import triton_pruning as pruning
from benchmarks import tuning_tilelang as beside
from tileprof.remarks.pruning import KeptForTiming, NotWorthTiming
from tileprof.tuning import Pruned, Ranked
from tileprof.tuning.model import Estimate


def outcome(*models: float, kept: int) -> Pruned:
    """A list in the model's order: its times, how many are kept."""
    return Pruned(
        "kernel",
        tuple(
            Ranked(
                f"n={at}", at < kept,
                KeptForTiming(place=at + 1) if at < kept else NotWorthTiming(ratio=2.0),
                Estimate(ns), None, at,
            )
            for at, ns in enumerate(models)
        ),
        1.5,
        2,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("times", "same", "needed"),
    [
        ((10.0, 11.0, 12.0, 13.0), True, 1),
        ((10.2, 11.0, 10.0, 13.0), True, 1),  # within 2 %
        ((12.0, 11.0, 10.0, 13.0), False, 3),
    ],
)
def test_row_says_whether_the_best_is_kept(
    times: tuple[float, ...], same: bool, needed: int
) -> None:
    """And how many would have to be."""
    made = outcome(1e3, 2e3, 3e3, 4e3, kept=2)
    given = {f"n={at}": time for at, time in enumerate(times)}
    row = pruning.judged("kernel", {"M": 1}, made, given)
    assert (row.same_best, row.needed, row.kept, row.fewer) == (same, needed, 2, 2.0)
    assert row.best_us == min(times)
    assert row.best_kept_us == min(times[:2])


def test_configuration_that_does_not_run_does_not_count() -> None:
    """It is timed by nobody, with pruning or without."""
    made = outcome(1e3, 2e3, 3e3, 4e3, kept=2)
    row = pruning.judged("kernel", {}, made, {"n=1": 3.0, "n=2": 2.0, "n=3": 4.0})
    assert (row.configurations, row.refused, row.kept, row.needed) == (3, 1, 1, 2)


def test_summary_counts_lists() -> None:
    """Fewer timed: all that are listed over all that are kept."""
    made = outcome(1e3, 2e3, 3e3, 4e3, kept=1)
    rows = [
        vars(pruning.judged("a", {}, made, {f"n={at}": float(at + 1) for at in range(4)})),
        vars(pruning.judged("b", {}, made, {f"n={at}": float(4 - at) for at in range(4)})),
    ]
    found = pruning.summary(rows)
    assert (found["lists"], found["same_best"], found["fewer_timed"]) == (2, 1, 4.0)
    assert found["worst_kept_over_best"] == 4.0
    assert found["fewer_if_known"] == 2.0
    assert found["median_correlation"] == 0.0


def side(*timed: tuple[float, int]) -> list[dict[str, Any]]:
    """Rows of one tuner: the configurations that it timed, and after how many seconds each."""
    return [{"seconds": seconds, "configuration": {"n": n}} for seconds, n in timed]


def test_time_to_near_the_best_is_that_of_the_first_that_is_near() -> None:
    """Theirs times all, ours two of three; each against the best of its own compiler."""
    theirs = {
        "listed": [{}] * 3, "space": 3, "seconds": 40.0, "timed": 3, "failed": 0,
        "winner": {"n": 2},
        "trace": [
            {"seconds": 20.0, "us": 9.0}, {"seconds": 25.0, "us": None},
            {"seconds": 30.0, "us": 5.05}, {"seconds": 35.0, "us": 5.0},
        ],
    }  # fmt: skip
    ours: dict[str, Any] = {
        "trace": side((2.0, 0), (3.0, 1)), "seconds": 4.0, "timed": 2, "winner": {"n": 1},
        "winner_us": 4.1, "sure": True, "rank_correlation": 0.5,
        "all": [{"configuration": {"n": n}, "us": us} for n, us in enumerate((8.0, 4.05, 4.0))],
    }  # fmt: skip
    row = beside.row_of(beside.CASES[0], theirs, ours)
    assert (row["theirs"]["near_best_s"], row["ours"]["near_best_s"]) == (30.0, 3.0)
    assert (row["faster_to_near_best"], row["faster_to_the_end"]) == (10.0, 10.0)
    # Nothing of theirs is as fast as our best.
    assert row["theirs"]["near_best_of_both_s"] is None
    assert row["ours"]["winner_over_best"] == pytest.approx(4.05 / 4.0)


def test_tuner_that_never_times_a_near_one_has_no_time() -> None:
    """It is None, not the end of the search."""
    assert beside.found_after(side((2.0, 0)), lambda each: 8.0, 4.0) is None
