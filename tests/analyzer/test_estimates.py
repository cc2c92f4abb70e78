"""Formulas of gains, against hand-made numbers and their laws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.analyzer.estimates import (
    Saving,
    capped,
    eliminated,
    gain_of,
    hidden,
    of_program,
    united,
    widened,
)
from tileprof.analyzer.findings import Gain

shares = st.floats(0, 0.97)
rows = st.lists(st.integers(0, 10_000), min_size=1, max_size=20).map(
    lambda values: np.array(values, float)
)
gains = st.lists(st.floats(1, 100), min_size=3, max_size=3).map(lambda each: Gain(*sorted(each)))


def saving(low: float, mid: float, high: float) -> Saving:
    """One that no samples tell."""
    return Saving(low, mid, high)


def test_a_half_that_goes_makes_it_twice_as_fast() -> None:
    """Time before by time after."""
    assert gain_of(saving(0, 0.5, 0.75)) == Gain(1, 2, 4)


def test_samples_that_go() -> None:
    """500 of 1,000: half as likely as they are all there is; the range is the sampling's."""
    found = eliminated(np.array([300.0, 200.0]), 1000)
    assert (found.mid, found.samples) == (0.5, 500)
    error = 2 * (0.25 / 100) ** 0.5  # of a tenth of the samples
    assert found.low == pytest.approx(0.25 - error)
    assert found.high == pytest.approx(0.5 + error)


def test_what_is_hidden_needs_work_to_hide_behind() -> None:
    """Of 600 samples of waiting 200 can be covered by 200 of work; at most all of them."""
    found = hidden(np.array([600.0]), issued=200, whole=1000)
    assert found.mid == pytest.approx(0.2)
    assert found.high >= 0.6
    assert hidden(np.zeros(1), issued=200, whole=1000).mid == 0


def test_a_roof_and_a_program() -> None:
    """Nothing is faster than the device; half of the program does not change."""
    gain = Gain(1.5, 2, 4)
    assert capped(gain, 1.8) == Gain(1.5, 1.8, 1.8)
    assert capped(gain, 0.9) == Gain(1, 1, 1)
    assert of_program(Gain(1, 2, 2), 0.5).mid == pytest.approx(4 / 3)


def test_the_highest_gain_of_kernels_that_no_rule_was_made_on() -> None:
    """Half as much again of what is beyond 1, up to a roof; the rest of the range stays."""
    gain = Gain(1.5, 2, 4)
    assert widened(gain) == Gain(1.5, 2, 5.5)
    assert capped(widened(gain), 5) == Gain(1.5, 2, 5)
    assert widened(Gain(1, 1, 1)) == Gain(1, 1, 1)


@given(gains)
def test_a_wider_range_holds_the_range(gain: Gain) -> None:
    """Its high end goes up with it."""
    wide = widened(gain)
    assert (wide.low, wide.mid) == (gain.low, gain.mid)
    assert wide.high >= gain.high
    assert wide.high - gain.high == pytest.approx((gain.high - 1) / 2)


@given(rows, st.floats(0, 1), st.floats(0, 1))
def test_a_range_holds_its_middle(taken: np.ndarray, part: float, sure: float) -> None:
    """Whatever is taken of whatever there is."""
    whole = float(taken.sum()) + 1
    found = eliminated(taken, whole, part, sure)
    assert 0 <= found.low <= found.mid <= found.high < 1
    gain = gain_of(found)
    assert 1 <= gain.low <= gain.mid <= gain.high


@given(rows, st.integers(1, 4), st.floats(1, 3))
def test_a_sample_goes_once(taken: np.ndarray, times: int, more: float) -> None:
    """The same saving twice is no more than once; different ones no more than their sum."""
    whole = float(taken.sum()) * more + 1
    one = eliminated(taken, whole)
    assert united([one] * times, whole).mid == pytest.approx(one.mid)
    other = eliminated(taken[::-1].copy(), whole)
    both = united([one, other], whole)
    assert max(one.mid, other.mid) - 1e-12 <= both.mid <= one.mid + other.mid + 1e-12


@given(shares, shares)
def test_what_is_not_told_by_samples_multiplies(one: float, other: float) -> None:
    """As if independent."""
    both = united([saving(one, one, one), saving(other, other, other)], 0)
    assert both.mid == pytest.approx(1 - (1 - one) * (1 - other))


@given(gains, st.floats(0, 1))
def test_a_program_gains_less_than_its_kernel(gain: Gain, share: float) -> None:
    """And in the same order."""
    whole = of_program(gain, share)
    assert 1 <= whole.low <= whole.mid <= whole.high
    assert whole.high <= gain.high * (1 + 1e-9)
