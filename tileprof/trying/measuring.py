"""Speed of a changed program over that of the original: pairs of processes that take turns.

In: the program as it is, and changed.  Out: `Pair`s, and the interval of their speed-up.

Both processes of a pair live at the same time, and do a batch of steps in turn, every second round
in the other order: what slows the machine down slows both. One process of the original serves
several changes, so it is in a pair with each of theirs. The speed-up of a pair is the median of
its rounds. From process to process more differs than from round to round (addresses, threads,
what was allocated first), so the interval is made of pairs alone: Student's t of the logarithms of
their speed-ups. A program without steps is timed as a whole, and each pair has one round.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tileprof.bench.intervals import Interval
from tileprof.profiler.session.steps import students_t

from .orders import Loop, Orders
from .processes import LoopCount, Process, ProgramError, Run

LOOKS = (3, 5, 8)
"""Numbers of pairs at which it may be decided: few, as each look is a chance to be wrong."""
_WIDER = 1.4
"""Student's t is taken so many times as wide for those chances. In 20,000 simulated changes that
bring nothing, at most 1.9 % are then kept at any noise (4.7 % without)."""
_MOST_STEPS = 200
"""Steps of a batch at most."""
_OF_LONGEST = 0.9
"""Part of the longest loop's time from which a loop is one around it, or the same by its time."""
_LEAST_STEP_NS = 2e5
"""Time of an iteration from which it may serve as a step: noticing it takes less than 1 µs."""
_LEAST_BATCH_NS = 5e6
"""Time of a batch for which a program has enough iterations at least."""
_SLOW, _ROUNDS_OF_SLOW = 0.8, 2
"""Speed-up below which a change is not timed further, and the rounds that have to show it: between
rounds, times differ by less than that on a machine without other work."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Settings of a program's timing."""

    rounds: int = 6
    """Batches of each process of a pair: even, so that each goes first as often as the other."""
    batch_ns: float = 1e8
    """Time of a batch, for which steps are repeated: short, so that a program of some hundred steps
    has enough for all rounds. Between processes, times differ more than between such batches."""
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


def loop_of_steps(
    counted: Sequence[LoopCount], untimed: int, timing: Timing
) -> tuple[Loop, Timing] | None:
    """Return the loop whose iterations may serve as steps, with batches that these are enough for:
    the outermost that takes most of the time; None where none goes round often enough.

    `untimed`: steps before the first timed one.
    """
    fitting: list[tuple[LoopCount, float]] = []
    for each in counted:
        step_ns = each.ns / max(1, each.count - 1)
        # The first step of a batch is not timed, and the last iteration has no end.
        steps = (each.count - untimed - 1) // timing.rounds - 1
        batch_ns = min(timing.batch_ns, steps * step_ns)
        if step_ns >= _LEAST_STEP_NS and steps > 0 and batch_ns >= _LEAST_BATCH_NS:
            fitting.append((each, batch_ns))
    longest = max((each.ns for each, _ in fitting), default=0)
    around = [one for one in fitting if one[0].ns >= _OF_LONGEST * longest]
    if not around:
        return None
    found, batch_ns = min(around, key=lambda one: one[0].count)
    return found.loop, replace(timing, batch_ns=batch_ns)


def _steps_of_batch(step_ns: float, timing: Timing) -> int:
    return max(1, min(_MOST_STEPS, round(timing.batch_ns / max(step_ns, 1.0))))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A process of the changed program beside one of the original."""

    pair: Pair
    old: Run
    new: Run


def steps_in_turns(
    original: Process, changed: Sequence[Process], timing: Timing, lead: int, turned: bool
) -> list[Outcome | ProgramError]:
    """Time steps of processes that were started and are ready, and end them.

    The original is timed once in each round, for all changed ones. `lead` are steps before each
    batch that are not timed: more than what was made ready while the process waited for its turn.
    `turned`: the original goes last at first, so that a program with few steps is not always timed
    in the same order. ProgramError where the original fails; where a changed one does, its error is
    in the list.
    """
    # Each does as many steps: step by step, they work on the same data.
    steps = _steps_of_batch(original.step_ns, timing)
    rounds: list[list[tuple[float, float]]] = [[] for _ in changed]
    failed: dict[int, ProgramError] = {}
    timed = list(range(len(changed)))
    for number in range(timing.rounds):
        taken: dict[int, float | None] = {}
        order = [-1, *timed]
        first = (number + turned) % len(order)
        # Each goes first as often as the others, and follows another one as often as they do.
        for at in (*order[first:], *order[:first]):
            try:
                taken[at] = (original if at < 0 else changed[at]).take(steps, lead)
            except ProgramError as error:
                if at < 0:
                    raise
                failed[at] = error
        old = taken[-1]
        if old is None:  # the program has ended
            break
        for at in timed:
            new = taken.get(at)
            if new is not None:
                rounds[at].append((old, new))
        timed = [at for at in timed if taken.get(at) is not None and not _is_slow(rounds[at])]
        if not timed:
            break
    run = original.end()
    return [
        failed[at] if at in failed else _ended(Pair(tuple(rounds[at])), run, each)
        for at, each in enumerate(changed)
    ]


def _is_slow(rounds: Sequence[tuple[float, float]]) -> bool:
    """Return whether no further round can make this a gain: the rest of the time is for others."""
    return len(rounds) >= _ROUNDS_OF_SLOW and all(old < _SLOW * new for old, new in rounds)


def _ended(pair: Pair, run: Run, process: Process) -> Outcome | ProgramError:
    try:
        return Outcome(pair, run, process.end())
    except ProgramError as error:
        return error


def runs_in_turns(
    original: Orders, changed: Sequence[Orders], timing: Timing, turned: bool
) -> list[Outcome | ProgramError]:
    """Time processes as a whole, one after the other; `turned`: the last one first.

    ProgramError as in `steps_in_turns`.
    """
    runs: dict[int, Run | ProgramError] = {}
    order = range(-1, len(changed))
    for at in reversed(order) if turned else order:
        try:
            with Process(original if at < 0 else changed[at], timing.limit_s) as process:
                runs[at] = process.ended()
        except ProgramError as error:
            if at < 0:
                raise
            runs[at] = error
    old = runs[-1]
    assert isinstance(old, Run)
    return [
        found
        if isinstance(found := runs[at], ProgramError)
        else Outcome(Pair(((float(old.ns), float(found.ns)),)), old, found)
        for at in range(len(changed))
    ]
