"""Times of both sides in turn, and whether a kernel's time changed beyond noise.

In: two workers for each pair.  Out: `Times` of each kernel.

Both processes of a pair live at the same time, and do batches in turn, every second round in the
other order: what slows the machine down slows both. In every second pair the new side is the first
to start and to have memory, which can make a kernel faster on one side of all pairs otherwise. From
process to process more differs than from round to round, so the interval is made of pairs alone, as
that of `tileprof try`. A kernel changed only if the whole interval lies beyond the floor: the
interval's end that is nearer to 1 counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, TypeAlias

from tileprof.bench.gpu_state import GpuState
from tileprof.bench.intervals import Interval
from tileprof.bench.rounds import in_turns
from tileprof.trying.measuring import LOOKS, Pair, speedup_interval

from .workers import Kernel, SideError, Worker

Verdict: TypeAlias = Literal["slower", "faster", "same", "undecided"]
Look: TypeAlias = Callable[[], GpuState | None]
Pairs: TypeAlias = Callable[[int], AbstractContextManager[tuple[Worker, Worker]]]
"""Starts both workers of the pair of this number."""

WIDER = 2.0
"""Student's t is taken so many times as wide, because a suite has many kernels and each is looked
at several times. In simulated suites without a change at most 0.7 % of the kernels are then named
at any noise (`benchmarks.bisect_plants`)."""
_CLOCKS_APART = 0.03
"""Share by which the SM clocks of both sides differ at least to be named as a cause. Boost clocks
move in steps of 15 MHz, below 1 % of those of data-center GPUs."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Settings of the timing."""

    floor: float = 0.02
    """Least change of a kernel's time that counts, as a share."""
    rounds: int = 6
    """Batches of each process of a pair: even, so that each goes first as often as the other."""
    batch_ns: float = 5e6
    """Time of a batch, for which calls are repeated."""
    lead: int = 2
    """Calls in front of each batch that are not timed: the other process had the GPU."""


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one kernel on both sides."""

    pairs: tuple[Pair, ...]
    floor: float
    clocks: tuple[float, float] | None = None
    """Median SM clock in MHz during the batches of each side; None where it is not known."""

    @property
    def old_ns(self) -> float:
        """Median time of a call on the old side."""
        return statistics.median(old for pair in self.pairs for old, _ in pair.rounds)

    @property
    def new_ns(self) -> float:
        """Median time of a call on the new side."""
        return statistics.median(new for pair in self.pairs for _, new in pair.rounds)

    @property
    def ratio(self) -> Interval | None:
        """Time on the new side by that on the old one, with its 95 % interval."""
        return ratio_of(self.pairs)

    @property
    def verdict(self) -> Verdict:
        """Whether the time changed."""
        return judged(self.ratio, self.floor)

    @property
    def clocks_differ(self) -> bool:
        """Whether the GPU ran at another clock on one side."""
        if self.clocks is None or not all(self.clocks):
            return False
        old, new = self.clocks
        return abs(new / old - 1) > _CLOCKS_APART


def ratio_of(pairs: Sequence[Pair]) -> Interval | None:
    """Return the time on the new side by that on the old one, with its 95 % interval; None for
    fewer than two pairs."""
    found = speedup_interval(pairs, WIDER)
    return found and Interval(1 / found.value, 1 / found.high, 1 / found.low)


def judged(ratio: Interval | None, floor: float) -> Verdict:
    """Return the verdict on an interval of the ratio; `undecided` for none."""
    if ratio is None:
        return "undecided"
    if ratio.low > 1 + floor:
        return "slower"
    if ratio.high < 1 - floor:
        return "faster"
    return "same" if ratio.low >= 1 - floor and ratio.high <= 1 + floor else "undecided"


@dataclass
class _Taken:
    """Measurements of one kernel so far."""

    pairs: list[Pair] = field(default_factory=list)
    clocks: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    failed: str = ""

    def times(self, floor: float) -> Times:
        clocks = [statistics.median(each) if each else 0.0 for each in self.clocks]
        known = all(clocks)
        return Times(tuple(self.pairs), floor, (clocks[0], clocks[1]) if known else None)


def timed(
    names: Sequence[str], pairs: Pairs, timing: Timing, look: Look = lambda: None
) -> tuple[dict[str, Times], dict[str, str]]:
    """Time kernels until each is decided or all pairs are done; return times, and failures.

    A kernel that is decided at one look is not timed in later pairs.
    """
    taken = {name: _Taken() for name in names}
    open_names = list(names)
    for number in range(LOOKS[-1]):
        with pairs(number) as (old, new):
            for name in open_names:
                _take(taken[name], name, old, new, timing, look)
        open_names = [name for name in open_names if not taken[name].failed]
        if number + 1 in LOOKS:
            open_names = [
                name
                for name in open_names
                if taken[name].times(timing.floor).verdict == "undecided"
            ]
        if not open_names:
            break
    times = {n: each.times(timing.floor) for n, each in taken.items() if each.pairs}
    return times, {n: each.failed for n, each in taken.items() if each.failed}


def _take(taken: _Taken, name: str, old: Worker, new: Worker, timing: Timing, look: Look) -> None:
    kernels = [(worker, worker.kernel(name)) for worker in (old, new)]
    try:
        # Who has its tensors first changes, as what the memory is like decides some times.
        calls = max(
            worker.ready(kernel, timing.batch_ns)
            for worker, kernel in (kernels[::-1] if len(taken.pairs) % 2 else kernels)
            if kernel is not None
        )
        batches = [
            partial(_batch, worker, kernel, calls, timing.lead, look)
            for worker, kernel in kernels
            if kernel is not None
        ]
        rounds: list[tuple[float, float]] = []
        for before, after in in_turns(batches):
            rounds.append((before[0], after[0]))
            for side, state in zip(taken.clocks, (before[1], after[1])):
                if state is not None and state.sm_mhz:
                    side.append(float(state.sm_mhz))
            if len(rounds) == timing.rounds:
                break
    except SideError as error:
        taken.failed = error.message
        return
    taken.pairs.append(Pair(tuple(rounds)))


def _batch(
    worker: Worker, kernel: Kernel, calls: int, lead: int, look: Look
) -> tuple[float, GpuState | None]:
    ns = worker.time(kernel, calls, lead)
    return ns, look()


def repeated(
    names: Sequence[str], pairs: Pairs, timing: Timing, count: int
) -> dict[str, tuple[Pair, ...]]:
    """Return `count` pairs of each kernel, decided or not."""
    taken = {name: _Taken() for name in names}
    for number in range(count):
        with pairs(number) as (old, new):
            for name in names:
                _take(taken[name], name, old, new, timing, lambda: None)
    return {name: tuple(each.pairs) for name, each in taken.items()}
