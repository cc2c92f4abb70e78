"""What is said below a profile that holds some of a program's steps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from tests.viewer.samples import node, profile_of
from tileprof.profile import SETUP, Profile, StepTimes, Tables, step_times
from tileprof.viewer import ViewOptions, render, render_lines
from tileprof.viewer.notes import steps_in

SOME = StepTimes(12, 240, {"cpu_time": (12.3e6, 4e5), "time": (9e6, 2e5)}, 12.1e6)


def sample(times: StepTimes | None, setup: bool = True) -> Profile:
    """A profile with that provenance."""
    provenance = times.provenance() if times is not None else {}
    symbol, own, below = node("frame", "load", "/w/train.py:3", cpu_time=5e9)
    roots = [node("frame", "train", "/w/train.py:9", cpu_time=1.5e8)]
    if setup:
        roots.append((replace(symbol, phase=SETUP), own, below))
    return profile_of(*roots, tables=Tables(provenance=provenance))


@pytest.mark.parametrize(
    "times",
    [
        SOME,
        StepTimes(0, 0),
        StepTimes(1, 20, {"cpu_time": (100.0, math.nan)}, 90.0),
        StepTimes(20, 20, {"cpu_time": (100.0, 0.0)}),
    ],
)
def test_provenance_holds_it(times: StepTimes) -> None:
    """What goes in as text comes out again."""
    found = step_times(times.provenance())
    assert repr(found) == repr(times)


def test_what_is_no_estimate() -> None:
    """Profiles of no steps, and those put together of several, say nothing."""
    assert step_times({}) is None
    assert step_times({"steps": "recorded 1 of 2 | recorded 2 of 2"}) is None
    assert steps_in(sample(None)) == []


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        (
            SOME,
            "12 of 240 steps were recorded; cpu_time 12.3 ms ± 400 µs a step, 2.95 s ± 96.0 ms in "
            "all (where not recorded 12.1 ms a step); time 9.00 ms ± 200 µs a step, 2.16 s ± 48.0 "
            "ms in all; ± for 95 %.",
        ),
        (StepTimes(0, 0), "No whole step was seen: all is set-up, and was recorded in full."),
        (
            StepTimes(1, 20, {"cpu_time": (1000, math.nan)}, 900),
            "1 of 20 steps were recorded; cpu_time 1.00 µs a step, 20.0 µs in all (where not "
            "recorded 900 ns a step).",
        ),
        (
            StepTimes(20, 20, {"cpu_time": (1000, 0)}),
            "20 of 20 steps were recorded; cpu_time 1.00 µs a step, 20.0 µs in all.",
        ),
    ],
)
def test_what_is_said(times: StepTimes, sentence: str) -> None:
    """An error where one is known, and what steps take that are not recorded."""
    assert steps_in(sample(times)) == [sentence]


def test_set_up_that_is_not_there() -> None:
    """A profile of the steps alone says so."""
    (sentence,) = steps_in(sample(SOME, setup=False))
    assert sentence.endswith("; set-up is not shown; ± for 95 %.")


@pytest.mark.parametrize("view", [render, render_lines])
def test_it_stands_below(view: Any) -> None:
    """Below the tree and the list of lines, in lines that fit."""
    shown = view(sample(SOME), ViewOptions(), 60, False, True).splitlines()
    assert "12 of 240 steps were recorded; cpu_time 12.3 ms ± 400 µs a" in shown
    assert max(map(len, shown)) <= 60
    ascii_only = view(sample(SOME), ViewOptions(), 80, False, False)
    assert ascii_only.isascii()
    assert "12.3 ms +- 400 us a step" in ascii_only
