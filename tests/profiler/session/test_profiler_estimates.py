"""Means of a part and what is said of the whole."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.profiler.session.steps import Moments, students_t


@pytest.mark.parametrize(
    ("freedom", "expected"),
    [
        (1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (6, 2.4469), (7, 2.3646), (10, 2.2281),
        (15, 2.1314), (30, 2.0423), (100, 1.9840), (1000, 1.9623), (10**9, 1.9600),
    ],
)  # fmt: skip
def test_students_t(freedom: int, expected: float) -> None:
    """The quantiles are those of the tables in every book."""
    assert students_t(freedom) == pytest.approx(expected, rel=1e-3)


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=50))
def test_mean_and_error(values: list[int]) -> None:
    """They are those of the formulas that keep all the numbers."""
    moments = Moments()
    for value in values:
        moments.add(value)
    count, whole = len(values), 3 * len(values)
    assert moments.mean == pytest.approx(statistics.fmean(values))
    error = students_t(count - 1) * statistics.stdev(values) / math.sqrt(count)
    assert moments.error(whole) == pytest.approx(error * math.sqrt(2 / 3), rel=1e-6, abs=1e-3)


def test_what_is_known() -> None:
    """Nothing of the spread from a single number; everything once all are there."""
    moments = Moments()
    moments.add(5)
    assert math.isnan(moments.error(2))
    assert moments.error(1) == 0
    moments.add(7)
    assert moments.error(2) == 0


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Of many samples from a skewed whole, 95 % of the intervals hold its mean."""
    chance = random.Random(5)
    whole = [chance.expovariate(1) + 2 for _ in range(400)]
    mean, held, trials = statistics.fmean(whole), 0, 2000
    for _ in range(trials):
        moments = Moments()
        for value in chance.sample(whole, 40):
            moments.add(value)
        held += abs(moments.mean - mean) <= moments.error(len(whole))
    assert 0.92 < held / trials < 0.97
