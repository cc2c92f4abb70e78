"""Verdicts on times: none under noise, the right one for a change, and clocks as a cause."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tileprof.bench.gpu_state import GpuState
from tileprof.bench.intervals import Interval
from tileprof.bisecting import Forms, Times, Timing, judged
from tileprof.bisecting.running import _change as change_of
from tileprof.bisecting.timing import timed
from tileprof.bisecting.workers import SideError
from tileprof.trying.measuring import Pair


class Side:
    """A worker whose kernels take as long as is drawn."""

    def __init__(self, factor: float, noise: float, drawn: random.Random) -> None:
        self.factor = factor * 2.718 ** drawn.gauss(0, noise)
        self.noise, self.drawn = noise, drawn

    def kernel(self, name: str) -> str:
        return name

    def ready(self, kernel: str, batch_ns: float) -> int:
        if kernel == "broken":
            raise SideError("it has no arguments")
        return 10

    def time(self, kernel: str, calls: int, lead: int) -> float:
        slow = self.factor if kernel == "slow" else 1.0
        return 1000.0 * slow * float(2.718 ** self.drawn.gauss(0, self.noise))


def run(names: list[str], factor: float, noise: float, seed: int, look: Any = None) -> Any:
    """Return times and failures of kernels; that called `slow` takes `factor` times as long."""
    drawn = random.Random(seed)

    @contextlib.contextmanager
    def pairs(number: int) -> Iterator[Any]:
        yield Side(1.0, noise, drawn), Side(factor, noise, drawn)

    return timed(names, pairs, Timing(), look or (lambda: None))


def test_noise_alone_names_no_kernel() -> None:
    """Three hundred kernels that did not change, at three sizes of noise: at most 2 % are named."""
    verdicts = [
        run(["same"], 1.0, noise, seed)[0]["same"].verdict
        for noise in (0.002, 0.02, 0.1)
        for seed in range(100)
    ]
    alarms = sum(each in ("slower", "faster") for each in verdicts)
    assert alarms <= 0.02 * len(verdicts)
    assert verdicts[:100].count("same") == 100


def test_side_that_has_memory_first_is_not_named_faster() -> None:
    """Whose tensors are made first is 4 % faster: sides are in turn, and no kernel is named."""
    drawn = random.Random(1)

    @contextlib.contextmanager
    def pairs(number: int) -> Iterator[Any]:
        ready = list[Side]()

        class Placed(Side):
            def ready(self, kernel: str, batch_ns: float) -> int:
                ready.append(self)
                self.factor = 0.96 if len(ready) == 1 else 1.0
                return super().ready(kernel, batch_ns)

        yield Placed(1.0, 0.002, drawn), Placed(1.0, 0.002, drawn)

    times, _ = timed(["slow"], pairs, Timing(), lambda: None)
    assert times["slow"].verdict == "undecided"


@pytest.mark.parametrize(("factor", "verdict"), [(1.1, "slower"), (0.9, "faster"), (1.01, "same")])
def test_change_beyond_the_floor_is_named(factor: float, verdict: str) -> None:
    """A tenth is far beyond noise of 0.2 %; a hundredth lies below the floor."""
    times, failed = run(["slow", "same", "broken"], factor, 0.002, 1)
    assert times["slow"].verdict == verdict
    assert times["same"].verdict == "same"
    assert failed == {"broken": "it has no arguments"}


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(1.021, 1.3, "slower"), (1.019, 1.3, "undecided"), (0.99, 1.01, "same"),
     (0.7, 0.979, "faster"), (0.7, 0.99, "undecided")],
)  # fmt: skip
def test_whole_interval_has_to_lie_beyond_the_floor(low: float, high: float, verdict: str) -> None:
    """The end that is nearer to 1 counts."""
    assert judged(Interval((low + high) / 2, low, high), 0.02) == verdict
    assert judged(None, 0.02) == "undecided"


def test_other_clock_on_one_side_is_seen() -> None:
    """The state is read after each batch of a side: in the first round the new side goes first."""
    clocks = iter([1500, 1980, 1980, 1500] * 100)

    def look() -> GpuState:
        return GpuState("GPU", "1", next(clocks), 1980, None, None, None, None, ())

    times, _ = run(["same"], 1.0, 0.002, 2, look)
    assert times["same"].clocks == (1980.0, 1500.0)
    assert times["same"].clocks_differ


@pytest.mark.parametrize(
    ("factor", "mhz", "level"),
    [(1.3, 1500, "clocks"), (1.3, 1980, "nothing"), (1.0, 1500, "nothing")],
)
def test_clock_is_named_where_nothing_else_explains_a_time(
    factor: float, mhz: int, level: str
) -> None:
    """The same code took longer, and the GPU ran at another clock meanwhile."""
    pairs = tuple(Pair(((1000.0, 1000.0 * factor * (1 + at / 1e4)),)) for at in range(3))
    forms = Forms("k", "tileprof", "s", {}, {}, (), (), (), "mov;", b"", {}, {})
    change = change_of("k", forms, forms, Times(pairs, 0.02, (1980.0, float(mhz))))
    assert change.verdict == ("slower" if factor > 1 else "same")
    assert change.difference is not None
    assert change.difference.level == level
    assert change.same_code
