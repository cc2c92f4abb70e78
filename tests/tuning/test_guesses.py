"""What measured times say about others, and honest comparison of two calls."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileprof.bench import Batch, Interval
from tileprof.tuning.configurations import Configuration
from tileprof.tuning.guesses import Guess, guesses, rank_correlation
from tileprof.tuning.space import Space, Tunable
from tileprof.tuning.timing import Batches, compared, is_decided, prepared

SPACE = Space((Tunable("block", "tile", 16, (16, 32, 64, 128, 256)),))
BLOCKS = [Configuration.of({"block": n}) for n in (16, 32, 64, 128, 256)]


def test_a_measured_time_is_its_own_guess() -> None:
    """Others follow the model's factor, the near ones more surely."""
    predicted = dict(zip(BLOCKS, (100.0, 90.0, 80.0, 90.0, 100.0)))
    found = guesses(predicted, {BLOCKS[0]: 200.0}, SPACE.steps)
    assert found[BLOCKS[0]].ns == pytest.approx(200, rel=0.01)
    assert 130 < found[BLOCKS[2]].ns < 165
    spreads = [found[each].spread for each in BLOCKS]
    assert spreads == sorted(spreads)


def test_nothing_is_gained_where_a_guess_is_sure() -> None:
    """A time that is known gains what it is better by; one far away may gain anything."""
    assert Guess(50, 1e-9).gain(100) == pytest.approx(math.log(2), rel=0.01)
    assert Guess(200, 0.01).gain(100) < 1e-6
    assert Guess(110, 0.3).gain(100) > 0.05
    assert Guess(math.inf, 0.3).gain(100) == 0


@given(st.lists(st.floats(1, 1e6), min_size=3, max_size=30, unique=True))
def test_rank_correlation_is_that_of_ranks(values: list[float]) -> None:
    """1 for the same order, -1 for the reverse, whatever the values are."""
    logs = [math.log(v) for v in values]
    if len(set(logs)) == len(values):
        assert rank_correlation(values, logs) == pytest.approx(1)
        assert rank_correlation(values, [-v for v in logs]) == pytest.approx(-1)
    assert math.isnan(rank_correlation(values[:2], values[:2]))


def test_rank_correlation_shares_ranks_of_equal_values() -> None:
    """By hand: ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3."""
    left, right = np.array([0, 1.5, 1.5, 3]), np.array([0, 1, 2, 3])
    expected = float(np.corrcoef(left, right)[0, 1])
    assert rank_correlation([1, 5, 5, 9], [10, 20, 30, 40]) == pytest.approx(expected)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


class FakeTimer:
    """A timer in which each call takes what its name says, times a disturbance of the moment."""

    clock = "host"
    most_calls = 1000

    def __init__(self, noise: float = 0.0) -> None:
        self.now, self._draw, self._noise = 0, np.random.default_rng(0), noise

    def batch(self, run: Callable[[], float], calls: int) -> Batch:
        """Time calls on the fake clock."""
        ns = run() * float(np.exp(self._noise * self._draw.standard_normal()))
        self.now += int(ns * calls)
        return Batch(ns, 0.0)


Sides = Callable[[float, float, float], tuple[FakeTimer, Batches, Batches]]


@pytest.fixture
def sides() -> Sides:
    """Two calls that take times in ns, with noise."""

    def make(one: float, other: float, noise: float) -> tuple[FakeTimer, Batches, Batches]:
        timer = FakeTimer(noise)
        return timer, prepared(timer, lambda: one), prepared(timer, lambda: other)

    return make


def test_a_batch_takes_some_milliseconds(sides: Sides) -> None:
    """A call of 10 µs is made 400 times, one of 10 ms once."""
    _, short, long = sides(10_000, 10_000_000, 0.0)
    assert (short.calls, long.calls) == (400, 1)


def test_a_clear_difference_is_decided_soon(sides: Sides) -> None:
    """Some rounds tell 5 % apart with 1 % of noise; three rounds a factor of 3."""
    timer, one, other = sides(105_000, 100_000, 0.01)
    found = compared(timer, one, other, 1.0, clock=lambda: timer.now)
    assert found.decided
    assert found.rounds <= 12
    assert found.ratio.value == pytest.approx(1.05, abs=0.02)
    timer, one, other = sides(300_000, 100_000, 0.01)
    assert compared(timer, one, other, 1.0, clock=lambda: timer.now).rounds == 3


def test_equal_calls_are_found_alike_or_undecided(sides: Sides) -> None:
    """Noise does not make a winner by more than what matters."""
    timer, one, other = sides(100_000, 100_000, 0.001)
    found = compared(timer, one, other, 1.0, clock=lambda: timer.now)
    assert found.ratio.value == pytest.approx(1, abs=0.005)
    timer, one, other = sides(100_000, 100_000, 0.2)
    found = compared(timer, one, other, 0.1, clock=lambda: timer.now)
    assert not found.decided or found.rounds > 5


def test_interrupted_calls_decide_nothing() -> None:
    """Where pairs say one thing and the fastest batches another, other programs were running."""
    slower = Interval(1.5, 1.2, 1.9)
    assert is_decided(slower, 1.4)
    assert not is_decided(slower, 0.9)
    assert is_decided(Interval(0.7, 0.6, 0.9), 0.8)
    assert not is_decided(Interval(0.7, 0.6, 0.9), 1.1)
    assert is_decided(Interval(1, 0.998, 1.002), 1.1)


def test_a_comparison_ends_when_its_time_is_over(sides: Sides) -> None:
    """Three rounds are made in any case."""
    timer, one, other = sides(5e8, 5e8, 0.01)
    assert compared(timer, one, other, 0.1, clock=lambda: timer.now).rounds == 3
