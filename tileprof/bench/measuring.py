"""Adaptive timing: rounds until the interval is narrow enough or the time is spent.

In: one or two calls and a timer.  Out: a `Result`.  Two calls take turns, and their ratio is the
median over the rounds, so whatever slows both, as a lower clock, does not change it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from .doubts import Doubt, of_gpu
from .gpu_state import GpuState
from .intervals import Interval, median_interval
from .rounds import BATCH_NS, batch_sizes, in_turns
from .timers import Batch, Clock, Run, Timer, replayed

Look = Callable[[], GpuState | None]

WARM_UP_NS = 300_000_000
"""Least time of warming up, in ns, for clocks to rise and caches to fill. A drift that is left is
reported as a doubt."""
FEWEST_ROUNDS, SURE_ROUNDS = 3, 7
"""Rounds that are always run, and rounds from which the interval can end the measurement."""
_GROWTH = 1.25
"""The interval is computed anew after so many times the rounds: seldom, as it takes a while and
stopping at the first narrow one would make it too narrow on average."""
_TRIALS = 3
"""Batches from which the size of a batch is estimated: the fastest counts, as others may have been
interrupted."""
_LOOK_NS = 50_000_000
"""Time between two looks at the GPU, in ns."""
_IDLE_TAIL = 0.05
"""Below this share of a batch that is still to be done when its last call returns, the GPU waits
for the host."""
_LATE, _LATE_NS = 0.05, 100_000
"""Share of a batch, and ns, from which work after its last event is no mere cost of waiting."""
_EMPTY_PART = 0.05
"""Share of a call's time that the two events around it may be."""


@dataclass(frozen=True, slots=True)
class Side:
    """A call that is timed, and its name."""

    name: str
    run: Run


@dataclass(frozen=True, slots=True)
class Plan:
    """When to stop, and what is timed."""

    within: float = 0.01
    """Wanted distance of the interval's ends from the median (or ratio), as a share of it."""
    seconds: float = 10.0
    """Time limit, without warming up."""
    graph: bool = False
    """Replay the calls from a CUDA graph, without the host."""
    flushed: bool = False
    """L2 is overwritten before each call; the timer does it."""


@dataclass(frozen=True, slots=True)
class Timed:
    """Times of one call, in ns."""

    name: str
    time: Interval
    calls: int
    """Calls in a batch."""
    batches: tuple[float, ...]
    """Time of a call in each round."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured, under which circumstances, and why it may be wrong."""

    timed: Timed
    baseline: Timed | None
    ratio: Interval | None
    """Time over the baseline's, by pairs: above 1 it is slower."""
    clock: str
    plan: Plan
    seconds: float
    gpu: tuple[GpuState, ...]
    """States of the GPU during the rounds; empty without a GPU or NVML."""
    doubts: tuple[Doubt, ...]

    @property
    def decisive(self) -> Interval:
        """The interval that `within` is about: of the ratio, else of the time."""
        return self.ratio or self.timed.time


def measure(
    sides: Sequence[Side],
    timer: Timer,
    plan: Plan | None = None,
    *,
    look: Look = lambda: None,
    empty_ns: float = 0.0,
    doubts: Sequence[Doubt] = (),
    clock: Clock = time.perf_counter_ns,
) -> Result:
    """Time one call, or a call and its baseline, which take turns.

    `look` reads the state of the GPU, `empty_ns` is the time between two events with nothing in
    between, and `doubts` are those known before.
    """
    plan = plan or Plan()
    takes, counts = _prepared(sides, timer, plan, clock)
    began = looked = clock()
    taken: list[list[Batch]] = []
    states: list[GpuState] = []
    check = SURE_ROUNDS
    for batches in in_turns(takes):
        taken.append(batches)
        now = clock()
        if now - looked >= _LOOK_NS or not states:
            looked = now
            if (state := look()) is not None:
                states.append(state)
        spent = (now - began) / 1e9
        if len(taken) >= check:
            check = int(len(taken) * _GROWTH) + 1
            if _decisive(_columns(taken)).uncertainty <= plan.within:
                break
        if spent >= plan.seconds and len(taken) >= FEWEST_ROUNDS:
            break
    columns = _columns(taken)
    timed = [
        Timed(side.name, median_interval(column), count, tuple(column))
        for side, column, count in zip(sides, columns, counts)
    ]
    ratio = _ratio(columns)
    found = Result(
        timed[0],
        timed[1] if ratio else None,
        ratio,
        timer.clock,
        plan,
        (clock() - began) / 1e9,
        tuple(states),
        tuple(doubts),
    )
    return _doubted(found, taken, empty_ns)


def _prepared(
    sides: Sequence[Side], timer: Timer, plan: Plan, clock: Clock
) -> tuple[list[Callable[[], Batch]], list[int]]:
    """Warm up, and return a batch of each side with its number of calls."""
    began = clock()
    for side in sides:
        timer.batch(side.run, 1)  # compiles, and allocates
    counts = [_batch_size(timer, side.run) for side in sides]
    takes: list[Callable[[], Batch]]
    takes = [partial(timer.batch, side.run, count) for side, count in zip(sides, counts)]
    if plan.graph:
        if plan.flushed:
            counts = [1] * len(sides)
        graphs = [replayed([side.run] * count) for side, count in zip(sides, counts)]
        takes = [partial(_graph_batch, timer, *each) for each in zip(graphs, counts)]
    warming = in_turns(takes)
    while clock() - began < WARM_UP_NS:
        next(warming)
    return takes, counts


def _graph_batch(timer: Timer, replay: Run, calls: int) -> Batch:
    """Time one replay of a graph that holds this many calls."""
    whole = timer.batch(replay, 1)
    return Batch(whole.ns / calls, whole.issue_ns / calls, whole.tail_ns, whole.late_ns)


def _batch_size(timer: Timer, run: Run) -> int:
    """Return how many calls make a batch, by the best of a few trials of growing size."""
    calls = 1
    while True:
        took = timer.batch(run, calls).ns
        for _ in range(_TRIALS - 1):
            if took * calls < 4 * BATCH_NS:
                took = min(took, timer.batch(run, calls).ns)
        if 4 * took * calls >= BATCH_NS or calls >= timer.most_calls:
            return batch_sizes([took], timer.most_calls)[0]
        calls = min(4 * calls, timer.most_calls)


def _columns(taken: Sequence[Sequence[Batch]]) -> list[list[float]]:
    """Return the times of each side, one a round."""
    return [[batch.ns for batch in column] for column in zip(*taken)]


def _ratio(columns: Sequence[Sequence[float]]) -> Interval | None:
    if len(columns) < 2:
        return None
    return median_interval([ours / theirs for ours, theirs in zip(*columns) if theirs])


def _decisive(columns: Sequence[Sequence[float]]) -> Interval:
    return _ratio(columns) or median_interval(columns[0])


def _doubted(found: Result, taken: Sequence[Sequence[Batch]], empty_ns: float) -> Result:
    """Add what the rounds themselves show."""
    sides = [found.timed] + ([found.baseline] if found.baseline else [])
    each = chain.from_iterable(
        _of_side(side, [batches[at] for batches in taken], found, empty_ns)
        for at, side in enumerate(sides)
    )
    doubts = (*found.doubts, *_of_interval(found), *each, *of_gpu(found.gpu))
    return Result(
        found.timed, found.baseline, found.ratio, found.clock, found.plan, found.seconds,
        found.gpu, doubts,
    )  # fmt: skip


def _of_interval(found: Result) -> Iterator[Doubt]:
    rounds = len(found.timed.batches)
    if rounds < SURE_ROUNDS:
        yield Doubt("few_rounds", {"rounds": rounds, "seconds": found.plan.seconds})
    elif (apart := found.decisive.uncertainty) > found.plan.within:
        facts = {"uncertainty": apart, "within": found.plan.within, "seconds": found.seconds}
        yield Doubt("noise", facts)
    if rounds < 2 * SURE_ROUNDS:
        return
    halves = [
        median_interval(part)
        for part in (found.timed.batches[: rounds // 2], found.timed.batches[rounds // 2 :])
    ]
    change = halves[1].value / halves[0].value - 1
    if abs(change) > found.plan.within and not halves[0].overlaps(halves[1]):
        yield Doubt("drift", {"name": found.timed.name, "change": change})


def _of_side(
    side: Timed, batches: Sequence[Batch], found: Result, empty_ns: float
) -> Iterator[Doubt]:
    if found.clock != "gpu":
        return
    whole = side.time.value * (1 if found.plan.flushed else side.calls)
    tail = statistics.median(batch.tail_ns for batch in batches)
    issue = statistics.median(batch.issue_ns for batch in batches)
    if not found.plan.graph and tail < _IDLE_TAIL * (issue * side.calls + tail):
        yield Doubt("launch_bound", {"name": side.name, "issue_us": issue / 1e3})
    late = statistics.median(batch.late_ns for batch in batches)
    if late > max(_LATE * whole, _LATE_NS):
        yield Doubt("other_streams", {"name": side.name, "late_us": late / 1e3})
    if found.plan.flushed and empty_ns > _EMPTY_PART * side.time.value:
        yield Doubt("short", {"name": side.name, "empty_us": empty_ns / 1e3})
