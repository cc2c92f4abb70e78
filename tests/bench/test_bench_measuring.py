"""Rounds, when they end, and what makes a time doubtful, with timers of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from tileprof.bench import (
    Batch,
    GpuState,
    Plan,
    Result,
    Side,
    batch_sizes,
    in_turns,
    measure,
    median_interval,
)
from tileprof.bench.doubts import known_before
from tileprof.bench.json_form import to_json
from tileprof.bench.measuring import SURE_ROUNDS

STATE = GpuState("H200", "580.1", 1980, 1980, 3201, 40, 300.0, 0.0, ())


@dataclass
class Machine:
    """A clock that only calls advance; each call's function returns its time in ns."""

    clock: str = "host"
    most_calls: int = 400
    now_ns: int = 0
    issue: float = 0.1
    """Share of a call's time after which it returns."""
    tail: float = 0.5
    late: float = 0.0
    """Times after the last call's return, as shares of a batch."""
    order: list[str] = field(default_factory=list)

    def now(self) -> int:
        """Look at the clock."""
        return self.now_ns

    def batch(self, run: Callable[[], Any], calls: int) -> Batch:
        """Time calls by what they return."""
        times = [run() for _ in range(calls)]
        whole = sum(times)
        self.now_ns += int(whole)
        self.order.append(getattr(run, "name", ""))
        return Batch(
            whole / calls, self.issue * whole / calls, self.tail * whole, self.late * whole
        )

    def measured(self, *runs: Callable[[], Any], **options: Any) -> Result:
        """Measure calls named `a`, `b`."""
        plan = options.pop("plan", Plan())
        sides = [Side(name, run) for name, run in zip("ab", runs)]
        return measure(sides, self, plan, clock=self.now, **options)


def taking(*times_ns: float) -> Callable[[], float]:
    """A call that takes these times, over and over."""
    return partial(next, itertools.cycle(times_ns))


def codes(result: Result) -> list[str]:
    """The codes of a result's doubts."""
    return [each.code for each in result.doubts]


def test_median_interval_holds_the_median_and_narrows_with_more_values() -> None:
    """Equal values have an interval of width 0; four times the values about half the width."""
    assert median_interval([5.0] * 9) == replace(median_interval([5.0]))
    few, many = (median_interval([*range(90, 111)] * times) for times in (1, 16))
    assert few.low < few.value == 100 < few.high
    assert many.uncertainty < few.uncertainty / 2
    assert few.overlaps(many)
    assert not few.overlaps(median_interval([200.0]))


def test_rounds_run_forwards_and_backwards() -> None:
    """Each round has one value of each side, in the order of the sides."""
    order: list[str] = []

    def take(name: str) -> str:
        order.append(name)
        return name.upper()

    rounds = list(itertools.islice(in_turns([partial(take, "a"), partial(take, "b")]), 3))
    assert rounds == [["A", "B"]] * 3
    assert order == ["b", "a", "a", "b", "b", "a"]


def test_batches_take_four_milliseconds() -> None:
    """Short calls are repeated, up to what a timer allows; long ones are timed alone."""
    assert batch_sizes([1e6, 1e4, 10, 9e9], 400) == [4, 400, 400, 1]


def test_steady_calls_end_at_the_first_look_at_the_interval() -> None:
    """Without noise the fewest sure rounds are enough and nothing is doubtful."""
    found = Machine().measured(taking(1e6))
    assert (found.timed.time.value, found.timed.calls) == (1e6, 4)
    assert len(found.timed.batches) == SURE_ROUNDS
    assert codes(found) == []
    assert (found.baseline, found.ratio) == (None, None)


def test_noise_takes_more_rounds_and_is_named_at_the_time_limit() -> None:
    """Rounds go on until the interval is narrow enough, or until the time is spent."""
    noisy = (5e6, 5.5e6, 4.5e6, 5.25e6, 4.75e6, 5e6, 5.1e6)
    wide = Machine().measured(taking(*noisy), plan=Plan(within=0.04))
    narrow = Machine().measured(taking(*noisy), plan=Plan(within=0.02))
    assert SURE_ROUNDS <= len(wide.timed.batches) < len(narrow.timed.batches)
    assert narrow.decisive.uncertainty <= 0.02
    assert codes(narrow) == []
    short = Machine().measured(taking(4e6, 6e6), plan=Plan(within=0.001, seconds=0.2))
    assert "noise" in codes(short)
    assert short.seconds == pytest.approx(0.2, abs=0.02)


def test_few_rounds_of_a_slow_call_are_doubtful() -> None:
    """A call that takes longer than the limit is still timed three times, with a warning."""
    found = Machine().measured(taking(3e9), plan=Plan(seconds=1))
    assert len(found.timed.batches) == 3
    assert [str(each) for each in found.doubts] == [
        "only 3 rounds fitted into 1 s, so the interval is a guess; give it more --seconds"
    ]


def test_ratio_is_of_pairs_and_a_common_drift_cancels() -> None:
    """The clock falls by half meanwhile: the ratio stays exact, the times are doubtful."""
    machine = Machine()

    def slowing(factor: float) -> float:
        return factor * 4e6 * (1 + machine.now_ns / 20e9)

    found = machine.measured(
        partial(slowing, 1.5), partial(slowing, 1.0), plan=Plan(within=0.0001, seconds=10)
    )
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.5, rel=0.002)
    assert "drift" in codes(found)
    assert found.timed.time.uncertainty > 5 * found.ratio.uncertainty


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, None),
        ({"tail": 0.001, "issue": 1.0}, "launch_bound"),
        ({"late": 0.2}, "other_streams"),
        ({"clock": "host", "tail": 0.001, "late": 0.2}, None),
    ],
)
def test_work_that_events_misjudge_is_doubtful(changes: dict[str, Any], code: str | None) -> None:
    """A GPU that waits for the host, and streams without an event; the host's clock sees both."""
    found = Machine(**{"clock": "gpu", **changes}).measured(taking(1e6))
    assert codes(found) == ([code] if code else [])


def test_short_calls_with_flushing_are_doubtful() -> None:
    """Each call lies between two events then, which cost time themselves."""
    flushed = Plan(flushed=True)
    for time_ns, expected in ((10_000.0, ["short"]), (1e6, [])):
        found = Machine("gpu").measured(taking(time_ns), plan=flushed, empty_ns=1500.0)
        assert codes(found) == expected


def test_throttling_and_moving_clocks_are_doubtful() -> None:
    """The reasons of all looks are named once, with the share of looks that had one."""
    hot = replace(STATE, sm_mhz=1400, celsius=88, held_back=("power cap", "temperature (software)"))
    states: Iterator[GpuState] = itertools.cycle([STATE, hot])
    found = Machine("gpu").measured(
        taking(60e6, 61e6), plan=Plan(within=1e-9, seconds=1), look=lambda: next(states)
    )
    held = {each.code: each for each in found.doubts}
    assert "power cap, temperature (software)" in str(held["throttled"])
    assert "88 °C" in str(held["throttled"])
    assert 0.3 < float(held["throttled"].facts["share"]) < 0.7
    assert str(held["clock"]) == "the SM clock moved between 1400 and 1980 MHz"


def test_busy_machine_is_known_before() -> None:
    """With a GPU its use counts, without one the load of the processors."""
    assert known_before(STATE, 99.0, 2) == ()
    (busy,) = known_before(replace(STATE, busy=0.4), 0.0, 2)
    assert "40 % of the last second" in str(busy)
    assert known_before(None, 1.0, 2) == ()
    assert [each.code for each in known_before(None, 2.5, 2)] == ["busy_host"]


def test_json_has_every_round_and_doubt() -> None:
    """The form that scripts read is plain JSON with a schema."""
    found = Machine("gpu", late=0.3).measured(taking(2e6), taking(1e6), look=lambda: STATE)
    form = to_json(found)
    assert form["schema"] == 1
    assert form["ratio"] == {"median": 2.0, "low": 2.0, "high": 2.0, "level": 0.95}
    assert form["time"]["batches_ns"] == [2e6] * form["rounds"]
    assert form["baseline"]["function"] == "b"
    assert form["gpu"]["states"][0]["sm_mhz"] == 1980
    assert [each["code"] for each in form["doubts"]] == ["other_streams"] * 2
