"""Speed of a changed program over that of the original: pairs of processes that take turns.

In: the program as it is, and changed.  Out: `Pair`s, and the interval of their speed-up.

Both processes of a pair live at the same time, and do a batch of steps in turn, every second round
in the other order: what slows the machine down slows both. The speed-up of a pair is the median of
its rounds. From process to process more differs than from round to round (addresses, threads,
what was allocated first), so the interval is made of pairs alone: Student's t of the logarithms of
their speed-ups. A program without steps is timed as a whole, and each pair has one round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tileprof.bench.intervals import Interval
from tileprof.bench.rounds import in_turns
from tileprof.profiler.session.steps import students_t

from .orders import Orders
from .processes import Process, Run

LOOKS = (3, 5, 8)
"""Numbers of pairs at which it may be decided: few, as each look is a chance to be wrong."""
_WIDER = 1.4
"""Student's t is taken so many times as wide for those chances. In 20,000 simulated changes that
bring nothing, at most 1.9 % are then kept at any noise (4.7 % without)."""
_MOST_STEPS = 200
"""Steps of a batch at most."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Settings of a program's timing."""

    rounds: int = 6
    """Batches of each process of a pair: even, so that each goes first as often as the other."""
    batch_ns: float = 2e8
    """Time of a batch, for which steps are repeated."""
    limit_s: float = 600.0
    """Longest time that a process may take to answer."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Times of two processes in turn, ns a step or a run: of the original, and of the changed."""

    rounds: tuple[tuple[float, float], ...]

    @property
    def speedup(self) -> float:
        """Time before by time after."""
        return statistics.median(old / new for old, new in self.rounds)


def speedup_interval(pairs: Sequence[Pair], wider: float = _WIDER) -> Interval | None:
    """Return the mean speed-up of pairs with its 95 % interval, which holds although it is looked
    at several times; None for fewer than two pairs. `wider`: factor of Student's t for that."""
    if len(pairs) < 2:
        return None
    logs = [math.log(each.speedup) for each in pairs]
    mean = statistics.fmean(logs)
    half = wider * students_t(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(*(math.exp(each) for each in (mean, mean - half, mean + half)))


def pair_of_steps(
    first: Process, second: Process, timing: Timing, lead: int, turned: bool
) -> tuple[Pair, Run, Run]:
    """Time steps of two processes that were started and are ready, and end them.

    `turned`: the second one goes first, so that a program with few steps is not always timed in
    the same order.

    `lead` are steps before each batch that are not timed: more than what was made ready while the
    process waited for its turn.
    """
    step_ns = max(first.step_ns, second.step_ns, 1.0)
    steps = max(1, min(_MOST_STEPS, round(timing.batch_ns / step_ns)))
    rounds: list[tuple[float, float]] = []
    sides = (second, first) if turned else (first, second)
    for taken in in_turns([partial(each.take, steps, lead) for each in sides]):
        old, new = reversed(taken) if turned else taken
        if old is None or new is None:  # the program has ended
            break
        rounds.append((old, new))
        if len(rounds) == timing.rounds:
            break
    return Pair(tuple(rounds)), first.end(), second.end()


def pair_of_runs(orders: Sequence[Orders], timing: Timing, turned: bool) -> tuple[Pair, Run, Run]:
    """Time two processes as a whole, one after the other; `turned`: the second one first."""
    runs: dict[int, Run] = {}
    for at in (1, 0) if turned else (0, 1):
        with Process(orders[at], timing.limit_s) as process:
            runs[at] = process.ended()
    return Pair(((float(runs[0].ns), float(runs[1].ns)),)), runs[0], runs[1]
