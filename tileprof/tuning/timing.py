"""Honest comparison of two calls in as little time as it takes.

In: a timer of `tileprof.bench`, calls.  Out: times, and the ratio of each pair of batches with its
interval.  A comparison ends when the interval of the ratio leaves no doubt which call is faster, or
that they differ by less than matters.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tileprof.bench import Interval, Timer, in_turns, median_interval, replayed
from tileprof.bench.rounds import BATCH_NS, batch_sizes
from tileprof.errors import TileprofError

from .numbers import PAIR_ROUNDS, SURE

Run = Callable[[], Any]
Clock = Callable[[], int]

_GROWTH = 1.3
"""The interval is looked at after so many times the rounds: seldom, as each look may end a
comparison too early."""
_FAR = 2.0
"""Factor by which each of the first pairs has to differ for the slower to be out at once."""
_FAR_ROUNDS = 3
"""Pairs that have to differ by it: a busy machine may stop one call for the time of two."""


_SHORT_NS = 100_000
"""Time of a call on a GPU below which it is replayed from a CUDA graph where that is possible: what
looks as short may be the time that the host takes for a launch."""


@dataclass(frozen=True, slots=True)
class Batches:
    """A call with the number of its repetitions in a batch."""

    run: Run
    calls: int
    first_ns: float
    """Time of one call, by the best of the batches that found the number."""
    replays: int = 1
    """Calls that one `run` makes."""

    def taken(self, timer: Timer) -> float:
        """Time one batch; return the time of a call, in ns."""
        return timer.batch(self.run, self.calls).ns / self.replays


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two calls in turns."""

    ratio: Interval
    """Time of the first over that of the second, by pairs."""
    fastest: float
    """The same for the fastest batch of each, which other programs disturb least."""
    ns: float
    """Median time of a call of the first, in ns."""
    other_ns: float
    """Median time of a call of the second, in ns."""
    rounds: int

    @property
    def decided(self) -> bool:
        """Whether it is sure which is faster, or that the difference does not matter."""
        return is_decided(self.ratio, self.fastest)

    @property
    def is_faster(self) -> bool:
        """Whether the first is more likely the faster one."""
        return (self.ratio.value if self.decided else self.fastest) < 1


def is_decided(ratio: Interval, fastest: float) -> bool:
    """Return whether an interval of ratios, and the ratio of the fastest batches, say alike which
    side is faster, or the interval that neither is."""
    first = ratio.high < 1 and fastest < 1 + SURE
    second = ratio.low > 1 and fastest > 1 - SURE
    alike = ratio.low > 1 - SURE and ratio.high < 1 + SURE
    return first or second or alike


def prepared(timer: Timer, run: Run) -> Batches:
    """Warm a call up, and find how many make a batch."""
    run()
    calls = 1
    best = timer.batch(run, 1).ns
    while 4 * best * calls < BATCH_NS and calls < timer.most_calls:
        calls = min(4 * calls, timer.most_calls)
        best = timer.batch(run, calls).ns
    best = min(best, timer.batch(run, calls).ns)
    (calls,) = batch_sizes([best], timer.most_calls)
    if timer.clock == "gpu" and best < _SHORT_NS and (graph := _graph(run, calls)) is not None:
        graph()
        best = timer.batch(graph, 1).ns / calls
        return Batches(graph, 1, best, calls)
    return Batches(run, calls, best)


def _graph(run: Run, calls: int) -> Run | None:
    """Return the replay of so many calls; None without PyTorch, or if they cannot be captured."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return None
    try:
        return replayed([run] * calls)
    except (TileprofError, RuntimeError):
        return None


def compared(
    timer: Timer,
    one: Batches,
    other: Batches,
    seconds: float,
    *,
    clock: Clock = time.perf_counter_ns,
) -> Comparison:
    """Time two calls in turns until their ratio is decided or the time is over."""
    fewest, most = PAIR_ROUNDS
    takes = [partial(each.taken, timer) for each in (one, other)]
    began = clock()
    taken: list[Sequence[float]] = []
    look = fewest
    for batches in in_turns(takes):
        taken.append(batches)
        count = len(taken)
        if count == _FAR_ROUNDS and _is_far(taken):
            break
        if count >= look:
            look = int(count * _GROWTH) + 1
            if count >= most or is_decided(_ratio(taken), _fastest(taken)):
                break
        if (clock() - began) / 1e9 > seconds and count >= 3:
            break
    mine, others = zip(*taken)
    return Comparison(
        _ratio(taken), _fastest(taken), median_interval(mine).value,
        median_interval(others).value, len(taken),
    )  # fmt: skip


def _fastest(taken: Sequence[Sequence[float]]) -> float:
    mine, others = zip(*taken)
    return float(min(mine) / max(min(others), 1e-9))


def _ratio(taken: Sequence[Sequence[float]]) -> Interval:
    return median_interval([mine / other for mine, other in taken if other])


def _is_far(taken: Sequence[Sequence[float]]) -> bool:
    return all(mine > _FAR * other for mine, other in taken) and _fastest(taken) > _FAR
