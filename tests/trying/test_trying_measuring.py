"""Speed-ups of pairs, and how often noise alone is taken for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from tileprof.trying.inside.loops import stepping_at
from tileprof.trying.inside.stepping import Enough, Stepping
from tileprof.trying.measuring import (
    LOOKS,
    Outcome,
    Pair,
    Timing,
    loop_of_steps,
    speedup_interval,
    steps_in_turns,
)
from tileprof.trying.orders import Loop
from tileprof.trying.processes import LoopCount, Process, ProgramError, Run

LEAST = 1.01


def decided(ratios: list[float]) -> bool:
    """Whether a change with these speed-ups of pairs would be kept, at one of the looks."""
    for look in LOOKS:
        interval = speedup_interval([Pair(((each, 1.0),)) for each in ratios[:look]])
        assert interval is not None
        if interval.low > LEAST:
            return True
        if interval.high < LEAST:
            return False
    return False


def test_a_pair_is_the_median_of_its_rounds() -> None:
    """One disturbed round moves nothing."""
    assert Pair(((2.0, 1.0), (9.0, 1.0), (2.2, 1.1))).speedup == pytest.approx(2.0)


def test_an_interval_is_made_of_pairs() -> None:
    """Student's t of logarithms; a single pair says nothing about noise."""
    assert speedup_interval([Pair(((2.0, 1.0),))]) is None
    found = speedup_interval([Pair(((each, 1.0),)) for each in (1.9, 2.0, 2.1)])
    assert found is not None
    assert found.value == pytest.approx(1.998, abs=1e-3)
    assert (found.low, found.high) == pytest.approx((1.679, 2.379), abs=1e-3)


@pytest.mark.spread("0.05")
@pytest.mark.parametrize("noise", [0.005, 0.05, 0.3])
def test_noise_alone_is_seldom_kept(noise: float) -> None:
    """Of 4,000 changes that bring nothing at most 2.5 % are, though there are several looks."""
    chance = np.random.default_rng(1)
    drawn = np.exp(noise * chance.standard_normal((4000, LOOKS[-1])))
    assert np.mean([decided(list(each)) for each in drawn]) <= 0.025


@pytest.mark.parametrize(
    ("loops", "found"),
    [
        ([(1, 900, 90.0), (2, 9000, 89.0)], (1, 100)),  # both go round often enough: the outer one
        ([(1, 20, 9.0), (2, 900, 8.9)], (2, 100)),  # the outer one does not
        ([(1, 90, 2.0), (2, 900, 8.9)], (2, 100)),  # one after the other
        ([(1, 41, 0.4), (2, 800, 0.39)], (1, 40)),  # five iterations for each of six batches
        ([(1, 900_000, 9.0)], None),  # too short to be noticed without a delay
        ([], None),
    ],
)
def test_outermost_loop_that_goes_round_often_enough(
    loops: list[tuple[int, int, float]], found: tuple[int, int] | None
) -> None:
    """Line, iterations and seconds of each loop; line of the one, and ms of a batch of it."""
    counted = [LoopCount(Loop("a.py", at), n, int(s * 1e9)) for at, n, s in loops]
    steps = loop_of_steps(counted, 10, Timing(batch_ns=1e8))
    told = steps and (steps[0].line, round(steps[1].batch_ns / 1e6))
    assert told == found


def test_true_gains_are_kept() -> None:
    """Of changes that bring a tenth, with 2 % of noise from pair to pair, nearly all are."""
    chance = np.random.default_rng(2)
    drawn = 1.1 * np.exp(0.02 * chance.standard_normal((1000, LOOKS[-1])))
    assert np.mean([decided(list(each)) for each in drawn]) >= 0.95


# -- steps inside of a process


class Played:
    """The other side, with orders that are known before."""

    def __init__(self, *orders: dict[str, Any]) -> None:
        self.said: list[dict[str, Any]] = []
        self._orders = list(orders)

    def say(self, message: dict[str, Any]) -> None:
        """Keep the message."""
        self.said.append(json.loads(json.dumps(message)))

    def hear(self) -> dict[str, Any]:
        """Return the next order."""
        return self._orders.pop(0)


class Ticks:
    """A clock that each step moves on by its own time."""

    now = 0

    def __call__(self) -> int:
        """Return the time."""
        return self.now


def test_only_asked_steps_are_timed() -> None:
    """Neither those before the first time nor those that lead to it; then the program ends."""
    clock = Ticks()
    channel = Played({"steps": 3, "lead": 2}, {"steps": 1, "lead": 0}, {"end": True})
    steps = Stepping(channel, 4, clock=clock)

    def run() -> None:
        for number in range(100):
            clock.now += 1000 if number < 6 else 10 + number
            steps.end()

    with pytest.raises(Enough):
        run()
    assert channel.said == [
        {"at": "ready", "step_ns": 1000},
        {"at": "timed", "ns": 16 + 17 + 18, "steps": 3},
        {"at": "timed", "ns": 19, "steps": 1},
    ]
    assert steps.count == 10


def test_calls_within_a_step_are_no_steps() -> None:
    """Nor is one that raises; the outermost call that returns ends a step."""
    steps = Stepping(Played(), 100)

    @steps.of_function
    def down(depth: int) -> None:
        if depth:
            down(depth - 1)
        if depth == 7:
            raise ValueError("deep")

    down(3)
    assert steps.count == 1
    with pytest.raises(ValueError, match="deep"):
        down(7)
    assert steps.count == 1


def test_steps_by_hand_count_alone() -> None:
    """Once the program marks them, those of optimizers are none."""
    steps = Stepping(Played(), 100)
    for by_hand in (False, False, True, False, True):
        steps.mark(by_hand)
    assert steps.count == 4


def test_iterations_of_one_loop_are_steps() -> None:
    """What its function holds is kept at the beginning of the next one; a second call goes on."""
    happened: list[object] = []
    begun = stepping_at(
        Loop("a.py", 5),
        lambda frame: happened.append(frame.f_locals["_number"]),
        lambda: happened.append("end"),
    )

    def run() -> None:
        for _number in range(2):
            begun("a.py", 5)
            for _ in range(2):
                begun("a.py", 7)

    run()
    run()
    assert happened == [1, "end", 0, "end", 1, "end"]


class Timed:
    """A process whose steps take `ns`; `order` has whose batch came when."""

    def __init__(self, name: str, ns: float, order: list[str], fails: bool = False) -> None:
        self._name, self._ns, self._order, self._fails = name, ns, order, fails
        self.step_ns = ns

    def take(self, steps: int, lead: int) -> float:
        """Time a batch."""
        self._order.append(self._name)
        if self._fails:
            raise ProgramError("failed")
        return self._ns

    def end(self) -> Run:
        """Return nothing of interest."""
        return Run(Path(), 1, 1, (1,), 0)


def test_changes_take_turns_with_one_original() -> None:
    """Each goes first equally often; a slow one is left out after two rounds, one that fails at
    once."""
    order: list[str] = []
    given: list[Any] = [
        Timed("fast", 1e6, order), Timed("slow", 9e6, order), Timed("failing", 1e6, order, True)
    ]  # fmt: skip
    fast, slow, failing = steps_in_turns(
        cast("Process", Timed("original", 2e6, order)), given, Timing(), 1, turned=False
    )
    assert isinstance(failing, ProgramError)
    assert isinstance(fast, Outcome)
    assert isinstance(slow, Outcome)
    assert (fast.pair.speedup, len(fast.pair.rounds)) == (2.0, 6)
    assert (len(slow.pair.rounds), order.count("failing")) == (2, 1)
    assert order[-8:] == ["original", "fast", "fast", "original"] * 2
