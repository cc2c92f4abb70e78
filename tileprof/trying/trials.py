"""Trials: one change after the other is made, compared, timed, and kept or not.

In: a program, and `Candidate`s.  Out: a `Trial` for each, then one for all that were kept together.
A change is kept only if its results are those of the original and the low end of its interval is
above 1 by more than the least gain. Nothing of an undecided measurement is kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, TypeAlias

from tileprof.analyzer.findings import Gain
from tileprof.analyzer.fixes import (
    Accuracy,
    CompiledFunction,
    EnvironmentVariable,
    Fix,
    LoaderWorkers,
    LoweringControl,
)
from tileprof.bench.doubts import Doubt, known_before, load_average
from tileprof.bench.gpu_state import read_gpu
from tileprof.bench.intervals import Interval

from .comparing import DISTURBED, Comparison, Reference, accuracy_of, tolerance_of
from .measuring import (
    LOOKS,
    Pair,
    Timing,
    pair_of_runs,
    pair_of_steps,
    speedup_interval,
)
from .orders import Orders, TriedProgram
from .processes import Circumstances, Process, ProgramError, Run

Verdict: TypeAlias = Literal[
    "kept", "not-faster", "undecided", "different", "not-compared", "not-applied", "failed"
]
_AHEAD = 3
"""Batches for each worker that may be ready while a process waits for its turn, with one more."""
_RECORDED = 30
"""Steps that are recorded to find what could be changed."""
_OF_DEVICE = 0.8
"""Part of a device's free memory that processes which stand ready together may take."""
_CORES = 4
"""Processors for each pair of processes that start together: a program uses several meanwhile."""
_HOPELESS = 0.95
"""Speed-up of the first pair at and below which no other follows, if each of its rounds was slower:
process to process, the real programs of benchmarks/programs differ by less than that."""
Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """Changes that are tried together, mostly a single one."""

    fixes: tuple[Fix, ...]
    finding: str = ""
    """Id of the finding whose answer it is; empty where the user named it."""
    predicted: Gain | None = None
    """Gain of the program that the finding states."""

    def __str__(self) -> str:
        return "; ".join(map(str, self.fixes))


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of trials."""

    kept_steps: int = 5
    """Steps whose results are compared."""
    untimed: int = 10
    """Steps before the first timed one."""
    least: float = 0.01
    """Gain from which a change is worth keeping, as a share."""
    seconds: float = 180.0
    """Time after which no further pair of a change is begun."""
    budget: float | None = None
    """Time after which no further change is begun, from the first process on, in s."""
    tolerance: float | None = None
    """Largest relative difference of values; None: as the change may move results."""
    uncompared: bool = False
    """Keep what is faster also where nothing could be compared."""
    seed: int = 0
    timing: Timing = field(default_factory=Timing)


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a candidate."""

    candidate: Candidate
    verdict: Verdict
    why: str
    measured: Interval | None
    """Time before by time after, with its 95 % interval."""
    pairs: tuple[Pair, ...]
    comparison: Comparison | None
    """None where no process of the changed program came so far."""
    tolerance: float
    seconds: float
    unit: Literal["step", "run"]
    """Work that a time is of."""
    circumstances: Circumstances
    """Circumstances of the last process of the changed program."""
    doubts: tuple[Doubt, ...] = ()
    """Reasons to doubt its times."""


class Trials:
    """Tries changes of one program; as a context, it removes what processes have written."""

    def __init__(
        self, program: TriedProgram, settings: Settings | None = None, tell: Tell = lambda _: None
    ) -> None:
        self._program, self._settings = program, settings or Settings()
        self._tell = tell
        self._folder = Path(tempfile.mkdtemp(prefix="tileprof-try-"))
        self._made = 0
        self._reference: Reference | None = None
        self._unstable: Comparison | None = None
        self._at_once = 1
        """Pairs of processes that are started together."""
        self._noise: Accuracy | None = None
        """Kind of noise that a process beside the next pair is to show; None for none."""
        self.doubts = known_before(read_gpu(), load_average(), os.cpu_count() or 1)
        """Reasons to doubt all times, known before anything ran."""
        self.has_steps = False
        """Whether steps are timed; else whole runs."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def begin(self) -> None:
        """Run the original once or twice: whether it has steps, and what its results are.

        ProgramError where it fails by itself.
        """
        self._tell("running the program as it is")
        with self._process(()) as process:
            self.has_steps = process.ready() and process.step_ns > 0
            # A program whose steps are over when it is ready has none left to be timed.
            if self.has_steps:
                self.has_steps = process.take(1, 0) is not None
            run = process.end()
        self._reference = Reference(run)
        if run.device_share:
            fitting = int(_OF_DEVICE / (2 * run.device_share))
            self._at_once = max(1, min(fitting, (os.cpu_count() or 1) // _CORES))
        if not self.has_steps:
            with self._process(()) as again:
                self._check_original(again.ended())

    def tried(self, candidates: Sequence[Candidate]) -> Iterator[Trial]:
        """Try each, and all that were kept together where they are several."""
        kept: list[Trial] = []
        began, budget = time.monotonic(), self._settings.budget
        for each in candidates:
            if budget is not None and time.monotonic() - began > budget:
                self._tell(f"no time left for {each}")
                continue
            if _is_beaten(each, kept):
                continue
            trial = self.try_one(each)
            if trial.verdict == "kept":
                kept.append(trial)
            yield trial
        if len(together := _together(kept)) > 1:
            yield self.try_one(Candidate(together))

    def try_one(self, candidate: Candidate) -> Trial:
        """Try one candidate."""
        if self._reference is None:
            self.begin()
        return _Attempt(self, candidate).trial()

    # -- for one attempt

    @property
    def settings(self) -> Settings:
        """Settings of trials."""
        return self._settings

    def pairs(self, fixes: tuple[Fix, ...], numbers: range) -> Generator[tuple[Pair, Run, Run]]:
        """Start processes of the original and of the changed program, and yield pair after pair.

        Where a device and its host have room for several pairs, these start together: starting
        takes most of the time. Each pair is timed alone, while the others wait.
        """
        if not self.has_steps:
            for number in numbers:
                yield pair_of_runs(self._both(fixes), self._settings.timing, turned=number % 2 == 1)
            return
        for first in range(numbers.start, numbers.stop, self._at_once):
            together = range(first, min(first + self._at_once, numbers.stop))
            yield from self._pairs_of_steps(fixes, together)

    def _pairs_of_steps(
        self, fixes: tuple[Fix, ...], numbers: range
    ) -> Iterator[tuple[Pair, Run, Run]]:
        timing, noise = self._settings.timing, self._noise
        with ExitStack() as started:
            disturbed = (
                started.enter_context(self._process((), DISTURBED[noise])) if noise else None
            )
            held = [
                [started.enter_context(Process(each, timing.limit_s)) for each in self._both(fixes)]
                for _ in numbers
            ]
            # None is timed before all are ready.
            if not all([process.ready() for pair in held for process in pair]):
                raise ProgramError(f"`{self._program}` ended before its steps were timed")
            if noise and disturbed is not None:
                self._take_noise(disturbed, noise)
            for number, (old, new) in zip(numbers, held, strict=True):
                yield pair_of_steps(old, new, timing, _lead(fixes), turned=number % 2 == 1)

    def _both(self, fixes: tuple[Fix, ...]) -> list[Orders]:
        """Return orders of the original and of the changed program, in folders of their own."""
        self._made += 1
        folder = self._folder / f"{self._made}"
        return [self._orders((), f"{folder}-original"), self._orders(fixes, f"{folder}-changed")]

    def compared(self, old: Run, new: Run, tolerance: float, accuracy: Accuracy) -> Comparison:
        """Return how a run of the changed program compares, and take in that of the original."""
        assert self._reference is not None
        self._check_original(old)
        return self._reference.compared(new, tolerance, accuracy)

    def accuracy(self, fixes: Sequence[Fix]) -> Accuracy:
        """Return how far changes may move results of this program, and learn what noise does."""
        reference = self._reference
        assert reference is not None
        accuracy = accuracy_of(fixes, reference.low_precision)
        if DISTURBED[accuracy] and reference.trains and not reference.knows_noise(accuracy):
            if self.has_steps:
                self._noise = accuracy
            else:
                with self._process((), DISTURBED[accuracy]) as process:
                    self._take_noise(process, accuracy)
        return accuracy

    def _take_noise(self, process: Process, accuracy: Accuracy) -> None:
        assert self._reference is not None
        process.ready()
        self._reference.disturbed(process.end(), accuracy)
        self._noise = None

    @property
    def unstable(self) -> Comparison | None:
        """Difference between two processes of the original, where they are not the same."""
        return self._unstable

    def tell(self, text: str) -> None:
        """Say what is going on."""
        self._tell(text)

    def _check_original(self, run: Run) -> None:
        assert self._reference is not None
        found = self._reference.add(run)
        if found.compared and not found.equal:
            self._unstable = found

    def _process(self, fixes: tuple[Fix, ...], disturbed: float = 0.0) -> Process:
        self._made += 1
        orders = self._orders(fixes, str(self._folder / f"{self._made}"), disturbed)
        return Process(orders, self._settings.timing.limit_s)

    def _orders(self, fixes: tuple[Fix, ...], folder: str, disturbed: float = 0.0) -> Orders:
        held = self._settings
        untimed = max(held.untimed, held.kept_steps + 1)
        return Orders(self._program, fixes, folder, held.kept_steps, untimed, held.seed, disturbed)


def record(program: TriedProgram, path: Path, seed: int = 0, limit_s: float = 600.0) -> None:
    """Record a program's first steps, or all of it where it has none, and write the profile."""
    with tempfile.TemporaryDirectory(prefix="tileprof-try-") as folder:
        orders = Orders(program, (), folder, 0, _RECORDED, seed, profile=str(path.absolute()))
        with Process(orders, limit_s) as process:
            process.ready()
            process.end()


def worth_keeping(trials: Sequence[Trial]) -> Trial | None:
    """Return the trial whose changes are to be kept: all together where they were kept together,
    else the one that brings most; None where none was kept."""
    kept = [each for each in trials if each.verdict == "kept"]
    together = [each for each in kept if len(each.candidate.fixes) > 1]
    return max(
        together or kept,
        key=lambda each: each.measured.value if each.measured else 0.0,
        default=None,
    )


def _together(kept: Sequence[Trial]) -> tuple[Fix, ...]:
    """Return all changes that were kept; of those that exclude each other, the fastest one."""
    found: dict[str, Fix] = {}
    for trial in sorted(kept, key=lambda each: -(each.measured.value if each.measured else 0)):
        for fix in trial.candidate.fixes:
            found.setdefault(_setting(fix), fix)
    return tuple(found.values())


def _is_beaten(candidate: Candidate, kept: Sequence[Trial]) -> bool:
    """Return whether a change that excludes this one has brought more than is expected of it."""
    if candidate.predicted is None or len(candidate.fixes) != 1:
        return False
    alike = (
        trial.measured.value
        for trial in kept
        if trial.measured
        and [*map(_setting, trial.candidate.fixes)] == [_setting(candidate.fixes[0])]
    )
    return max(alike, default=0.0) >= candidate.predicted.mid


def _setting(fix: Fix) -> str:
    """Return what a change sets: two changes that set the same exclude each other."""
    match fix:
        case EnvironmentVariable(name=name) | LoweringControl(name=name):
            return f"{fix.code} {name}"
        case CompiledFunction():
            return str(fix)
    return fix.code


def _lead(fixes: Sequence[Fix]) -> int:
    """Return how many steps before each batch are not timed."""
    workers = max((fix.workers for fix in fixes if isinstance(fix, LoaderWorkers)), default=0)
    return 1 + _AHEAD * workers


class _Attempt:
    """The pairs of one candidate until it is decided."""

    def __init__(self, trials: Trials, candidate: Candidate) -> None:
        self._trials, self._candidate = trials, candidate
        self._accuracy = trials.accuracy(candidate.fixes)
        self._tolerance = tolerance_of(self._accuracy, trials.settings.tolerance)
        self._pairs: list[Pair] = []
        self._comparison: Comparison | None = None
        self._circumstances = Circumstances()
        self._began = time.monotonic()

    def trial(self) -> Trial:
        verdict, why = self._judged()
        return Trial(
            self._candidate, verdict, why, speedup_interval(self._pairs), tuple(self._pairs),
            self._comparison, self._tolerance, time.monotonic() - self._began,
            "step" if self._trials.has_steps else "run", self._circumstances, self._trials.doubts,
        )  # fmt: skip

    def _judged(self) -> tuple[Verdict, str]:
        settings = self._trials.settings
        self._trials.tell(f"trying {self._candidate}")
        for numbers in map(range, (0, *LOOKS), LOOKS):
            try:
                with closing(self._trials.pairs(self._candidate.fixes, numbers)) as pairs:
                    for pair in pairs:
                        if ended := self._taken(*pair):
                            return ended
            except ProgramError as error:
                return "failed", error.message
            if decided := self._decided():
                return decided
            if time.monotonic() - self._began > settings.seconds:
                break
        return "undecided", "its interval is too wide to say that it is faster"

    def _taken(self, pair: Pair, old: Run, new: Run) -> tuple[Verdict, str] | None:
        """Take in a pair, and return why no other one is needed."""
        self._circumstances = new.circumstances
        if not all(new.counts):
            unused = [str(fix) for fix, n in zip(self._candidate.fixes, new.counts) if not n]
            return "not-applied", f"the program has nothing that it changes: {unused[0]}"
        if refused := self._refused(old, new):
            return refused
        if not pair.rounds:
            return "failed", "the program ended before a step was timed; let it do more steps"
        self._pairs.append(pair)
        slower = all(old < new for old, new in pair.rounds)
        if len(self._pairs) == 1 and slower and pair.speedup <= _HOPELESS:
            return "not-faster", f"slower in each round of the first pair ({pair.speedup:.2f}×)"
        return None

    def _refused(self, old: Run, new: Run) -> tuple[Verdict, str] | None:
        found = self._trials.compared(old, new, self._tolerance, self._accuracy)
        # What is kept of all pairs is the one that differs most from the original.
        if self._comparison is None or not found.equal:
            self._comparison = found
        if self._trials.unstable is not None:
            return None
        if found.compared and not found.equal:
            return "different", f"results differ: {found}"
        return None

    def _decided(self) -> tuple[Verdict, str] | None:
        settings, interval = self._trials.settings, speedup_interval(self._pairs)
        assert interval is not None
        if interval.high < 1 + settings.least:
            return "not-faster", f"not faster by {settings.least:.0%}"
        if interval.value <= 1 + settings.least:
            # More pairs seldom turn that into a gain, and take as long again.
            return "undecided", f"{len(self._pairs)} pairs show no gain, but may hide one"
        if interval.low <= 1 + settings.least:
            return None
        if self._trials.unstable is None and self._comparison and self._comparison.equal:
            return "kept", f"faster, and results are the same: {self._comparison}"
        why = "results not compared: the program has none that can be"
        if self._trials.unstable is not None:
            why = f"results not compared: two runs of the original differ ({self._trials.unstable})"
        return ("kept", f"faster; {why}") if settings.uncompared else ("not-compared", why)
