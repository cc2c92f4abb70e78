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
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Self, TypeAlias

from tileprof.analyzer.fixes import (
    COMPILED_MODELS,
    Accuracy,
    CompiledFunction,
    Fix,
)
from tileprof.bench.doubts import known_before, load_average
from tileprof.bench.gpu_state import read_gpu

from .choosing import does, is_beaten, kept_together, lacks_memory, lead_of
from .comparing import DISTURBED, Comparison, Reference, accuracy_of, tolerance_of
from .measuring import (
    LOOKS,
    Outcome,
    Pair,
    Timing,
    loop_of_steps,
    runs_in_turns,
    speedup_interval,
    steps_in_turns,
)
from .orders import Loop, Orders, Place, TriedProgram
from .outcomes import Candidate, Settings, Trial, Verdict
from .processes import Circumstances, Process, ProgramError, Run

_NEVER = 1 << 62
"""Steps before the first timed one of a process that is timed as a whole."""
_RECORDED = 30
"""Steps that are recorded to find what could be changed."""
_OF_MEMORY = 0.8
"""Part of the free memory, of the device or the host, that processes which stand ready together
may take."""
_LEAST_TOGETHER, _MOST_TOGETHER = 4, 16
"""Processes that start together where memory is enough for them: as many as there are processors,
between these bounds. With fewer, the original would start again for nearly every change."""
_HOPELESS = 0.95
"""Speed-up of the first pair at and below which no other follows, if each of its rounds was slower:
process to process, the real programs of benchmarks/programs differ by less than that."""
_HOPELESS_WHEN_BUSY = 0.6
"""The same where there are reasons to doubt all times: with 13 processes on 2 processors, one pair
gave 0.63 for a change that three pairs later gave 1.11."""
Tell: TypeAlias = Callable[[str], None]


class Trials:
    """Tries changes of one program; as a context, it removes what processes have written."""

    def __init__(
        self, program: TriedProgram, settings: Settings | None = None, tell: Tell = lambda _: None
    ) -> None:
        self._program, self._settings = program, settings or Settings()
        self._timing = self._settings.timing
        self._tell = tell
        self._folder = Path(tempfile.mkdtemp(prefix="tileprof-try-"))
        self._made = 0
        self._checked: set[Path] = set()
        """Folders of those processes of the original that the reference has taken in."""
        self._reference: Reference | None = None
        self._unstable: Comparison | None = None
        self._together = 2
        """Processes that may stand ready together."""
        self._recorded: Run | None = None
        """The run that was recorded, where it has steps."""
        self._has_no_step = False
        """Whether a run was recorded that has not even one step."""
        self._noises: dict[Accuracy, None] = {}
        """Kinds of noise that processes beside the next pairs are to show, in their order."""
        self.doubts = known_before(read_gpu(), load_average(), os.cpu_count() or 1)
        """Reasons to doubt all times, known before anything ran."""
        self.has_steps = False
        """Whether steps are timed; else whole runs."""
        self._is_whole = False
        """Whether processes are to run to their end without waiting for orders."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def record(self, path: Path) -> None:
        """Record the program's first steps, or all of it where it has none, and write the profile.

        Where it has steps, this is its first run too. ProgramError where it fails by itself.
        """
        self._made += 1
        orders = self._orders((), str(self._folder / f"{self._made}"))
        orders = replace(orders, untimed=_RECORDED, profile=str(path.absolute()))
        with Process(orders, self._timing.limit_s) as process:
            ready = process.ready() and process.step_ns > 0
            has_steps = ready and process.take(1, 0) is not None
            run = process.end()
        self._recorded = run if has_steps else None
        self._has_no_step = not run.steps

    def begin(self) -> None:
        """Run the original: whether it has steps, and what its results are.

        A program that marks no steps and has no optimizer is run again to find a loop whose
        iterations can be the steps. ProgramError where it fails by itself.
        """
        run = self._recorded
        self.has_steps = run is not None
        if run is None and not self._has_no_step:
            self._tell("running the program as it is")
            run = self._first_run()
        if not self.has_steps and self._program.step is None and (found := self._loop()):
            whole, loop = self._program, found[0]
            self._program = replace(whole, loop=loop)
            in_loop = self._first_run()
            if self.has_steps:
                self._tell(f"its steps are the iterations of the loop at {loop}")
                run, self._timing = in_loop, found[1]
            else:
                self._program = whole
        if run is None:
            self._tell("running the program as it is")
            run = self._first_run()
        self._reference = Reference(run)
        most = max(_LEAST_TOGETHER, min(_MOST_TOGETHER, os.cpu_count() or 1))
        fitting = int(_OF_MEMORY / run.memory_share) if run.memory_share else most
        self._together = max(2, min(most, fitting))
        if not self.has_steps:
            self._is_whole = True
            with self._process(()) as again:
                self._check_original(again.ended())

    def _first_run(self) -> Run:
        with self._process(()) as process:
            self.has_steps = process.ready() and process.step_ns > 0
            # A program whose steps are over when it is ready has none left to be timed.
            if self.has_steps:
                self.has_steps = process.take(1, 0) is not None
            return process.end()

    def _loop(self) -> tuple[Loop, Timing] | None:
        """Return a loop of the program whose iterations can be its steps, and their timing."""
        self._made += 1
        orders = self._orders((), str(self._folder / f"{self._made}"))
        orders = replace(orders, counts_loops=True, untimed=_NEVER)
        try:
            with Process(orders, self._timing.limit_s) as process:
                counted = process.ended().loops
        except ProgramError:  # what is called in its loops may be no part of what it compiles
            return None
        return loop_of_steps(counted, self._untimed, self._timing)

    @property
    def _untimed(self) -> int:
        return max(self._settings.untimed, self._settings.kept_steps + 1)

    def tried(self, candidates: Sequence[Candidate]) -> Iterator[Trial]:
        """Try each, and all that were kept together where they are several.

        Changes whose processes fit into memory together share those of the original. Each is
        yielded when it is decided.
        """
        done: list[Trial] = []
        waiting, crowded = list(candidates), list[Candidate]()
        began, budget = time.monotonic(), self._settings.budget
        while waiting:
            if budget is not None and time.monotonic() - began > budget:
                self._tell(f"no time left for {', '.join(map(str, waiting))}")
                break
            if self._reference is None:
                self.begin()
            group, waiting = self._next(waiting, done)
            for trial in self._try(group):
                if len(group) > 1 and lacks_memory(trial):
                    crowded.append(trial.candidate)
                    continue
                done.append(trial)
                yield trial
            if not waiting and crowded:
                waiting, crowded = [crowded[0]], crowded[1:]
        if len(together := kept_together(done)) > 1:
            yield self.try_one(Candidate(together))

    def _next(
        self, waiting: Sequence[Candidate], done: Sequence[Trial]
    ) -> tuple[list[Candidate], list[Candidate]]:
        """Return candidates to be tried next beside one original, and those after them."""
        left = [each for each in waiting if not is_beaten(each, done)]
        group: list[Candidate] = []
        for each in left:
            if len(group) == self._together - 1:
                break
            # Of changes that do the same, the second may be beaten by the first.
            same = any(does(a, b) for other in group for a in other.fixes for b in each.fixes)
            if not same and (not group or lead_of(each.fixes) == lead_of(group[0].fixes)):
                group.append(each)
        return group, [each for each in left if each not in group]

    def try_one(self, candidate: Candidate) -> Trial:
        """Try one candidate."""
        if self._reference is None:
            self.begin()
        return next(self._try([candidate]))

    def _try(self, group: Sequence[Candidate]) -> Iterator[Trial]:
        """Try candidates beside the same processes of the original, and yield each when it is
        decided."""
        open_ = [_Attempt(self, each, len(group)) for each in group]
        if open_:
            self._tell(f"trying {', '.join(str(each.candidate) for each in open_)}")
        for numbers in map(range, (0, *LOOKS), LOOKS):
            # Many fail or show no gain in their first pair; the others need not start with them.
            parts = [numbers]
            if not numbers.start and len(open_) > 1:
                parts = [numbers[:1], numbers[1:]]
            for part in parts:
                fixes = [each.candidate.fixes for each in open_]
                with closing(self.rounds(fixes, part)) as rounds:
                    for outcomes in rounds:
                        for each, outcome in zip(open_, outcomes, strict=True):
                            each.take(outcome)
                        if all(each.over for each in open_):
                            break
                yield from (each.trial() for each in open_ if each.over)
                open_ = [each for each in open_ if not each.over]
                if not open_:
                    return
            for each in open_:
                each.decide(last=numbers.stop == LOOKS[-1])
            yield from (each.trial() for each in open_ if each.over)
            open_ = [each for each in open_ if not each.over]
            if not open_:
                return

    # -- for one attempt

    @property
    def settings(self) -> Settings:
        """Settings of trials."""
        return self._settings

    def rounds(
        self, changes: Sequence[tuple[Fix, ...]], numbers: range
    ) -> Generator[list[Outcome | ProgramError]]:
        """Start processes of the original and of each changed program, and yield, for each number
        of a pair, how each change came out beside the original.

        Several pairs start together where memory has room for them: starting takes most of the
        time. Each is timed alone, while the others wait.
        """
        timing = self._timing
        if not self.has_steps:
            for number in numbers:
                original, *changed = self._all(changes)
                yield _each(changed, partial(
                    runs_in_turns, original, changed, timing, number % 2 == 1
                ))  # fmt: skip
            return
        at_once = max(1, self._together // (1 + len(changes)))
        for first in range(numbers.start, numbers.stop, at_once):
            together = range(first, min(first + at_once, numbers.stop))
            yield from self._rounds_of_steps(changes, together)

    def _rounds_of_steps(
        self, changes: Sequence[tuple[Fix, ...]], numbers: range
    ) -> Iterator[list[Outcome | ProgramError]]:
        timing = self._timing
        with ExitStack() as started:
            disturbed = {
                noise: started.enter_context(self._process((), DISTURBED[noise]))
                for noise in self._noises
            }
            held = [
                [
                    started.enter_context(Process(each, timing.limit_s))
                    for each in self._all(changes)
                ]
                for _ in numbers
            ]
            # None is timed before all are ready.
            states = [[self._state(process) for process in processes] for processes in held]
            for noise, process in disturbed.items():
                self._take_noise(process, noise)
            lead = max(map(lead_of, changes))
            for number, (original, *changed), (unready, *errors) in zip(numbers, held, states):
                if unready is not None:
                    yield [unready for _ in changed]
                    continue
                ready = [process for process, error in zip(changed, errors) if error is None]
                found = iter(_each(ready, partial(
                    steps_in_turns, original, ready, timing, lead, number % 2 == 1
                )))  # fmt: skip
                yield [next(found) if error is None else error for error in errors]

    def _state(self, process: Process) -> ProgramError | None:
        """Wait until a process is ready, and return why it never will be."""
        try:
            if process.ready():
                return None
        except ProgramError as error:
            return error
        return ProgramError(f"`{self._program}` ended before its steps were timed")

    def _all(self, changes: Sequence[tuple[Fix, ...]]) -> list[Orders]:
        """Return orders of the original and of each changed program, in folders of their own."""
        self._made += 1
        folder = self._folder / f"{self._made}"
        changed = (
            self._orders(fixes, f"{folder}-changed-{at}") for at, fixes in enumerate(changes)
        )
        return [self._orders((), f"{folder}-original"), *changed]

    def compared(self, old: Run, new: Run, tolerance: float, accuracy: Accuracy) -> Comparison:
        """Return how a run of the changed program compares, and take in that of the original."""
        assert self._reference is not None
        self._check_original(old)
        return self._reference.compared(new, tolerance, accuracy)

    def drawn_alike(self, fixes: tuple[Fix, ...]) -> Run:
        """Return a process of the changed program whose compiled code draws the random numbers of
        the original; ProgramError where it fails."""
        self._tell("comparing once more: compiled code draws the random numbers of the original")
        self._made += 1
        orders = self._orders(fixes, str(self._folder / f"{self._made}"))
        with Process(replace(orders, draws_alike=True), self._timing.limit_s) as process:
            process.ready()
            return process.end()

    def accuracy(self, fixes: Sequence[Fix]) -> Accuracy:
        """Return how far changes may move results of this program, and learn what noise does."""
        reference = self._reference
        assert reference is not None
        accuracy = accuracy_of(fixes, reference.low_precision)
        if DISTURBED[accuracy] and reference.trains and not reference.knows_noise(accuracy):
            if self.has_steps:
                self._noises[accuracy] = None
            else:
                with self._process((), DISTURBED[accuracy]) as process:
                    self._take_noise(process, accuracy)
        return accuracy

    def _take_noise(self, process: Process, accuracy: Accuracy) -> None:
        assert self._reference is not None
        process.ready()
        self._reference.disturbed(process.end(), accuracy)
        self._noises.pop(accuracy, None)

    @property
    def unstable(self) -> Comparison | None:
        """Difference between two processes of the original, where they are not the same."""
        return self._unstable

    def _check_original(self, run: Run) -> None:
        assert self._reference is not None
        if run.folder in self._checked:
            return  # It is in the pairs of several changes.
        self._checked.add(run.folder)
        found = self._reference.add(run)
        if found.compared and not found.equal:
            self._unstable = found

    def _process(self, fixes: tuple[Fix, ...], disturbed: float = 0.0) -> Process:
        self._made += 1
        orders = self._orders(fixes, str(self._folder / f"{self._made}"), disturbed)
        return Process(orders, self._timing.limit_s)

    def _orders(self, fixes: tuple[Fix, ...], folder: str, disturbed: float = 0.0) -> Orders:
        held = self._settings
        untimed = _NEVER if self._is_whole else self._untimed
        return Orders(self._program, fixes, folder, held.kept_steps, untimed, held.seed, disturbed)


def _each(
    changed: Sequence[object], measure: Callable[[], list[Outcome | ProgramError]]
) -> list[Outcome | ProgramError]:
    """Return what came of each changed process: where the original fails, its error for all."""
    try:
        return measure()
    except ProgramError as error:
        return [error for _ in changed]


class _Attempt:
    """The pairs of one candidate until it is decided."""

    def __init__(self, trials: Trials, candidate: Candidate, together: int) -> None:
        self.candidate = candidate
        self._trials, self._together = trials, together
        self._accuracy = trials.accuracy(candidate.fixes)
        self._tolerance = tolerance_of(self._accuracy, trials.settings.tolerance)
        self._pairs: list[Pair] = []
        self._comparison: Comparison | None = None
        self._is_drawn_alike = False
        """Whether results are the same once compiled code draws the original's random numbers."""
        self._circumstances = Circumstances()
        self._places: tuple[tuple[Place, ...], ...] = ()
        self._began = time.monotonic()
        self._found: tuple[Verdict, str] | None = None

    @property
    def over(self) -> bool:
        """Whether it is decided."""
        return self._found is not None

    @property
    def _seconds(self) -> float:
        """Its part of the time that it and the others beside it have taken."""
        return (time.monotonic() - self._began) / self._together

    def trial(self) -> Trial:
        """Return what came of it, once it is decided."""
        assert self._found is not None
        verdict, why = self._found
        return Trial(
            self.candidate, verdict, why, speedup_interval(self._pairs), tuple(self._pairs),
            self._comparison, self._tolerance, self._seconds,
            "step" if self._trials.has_steps else "run", self._circumstances, self._trials.doubts,
            self._places,
        )  # fmt: skip

    def take(self, outcome: Outcome | ProgramError) -> None:
        """Take in a pair, or why there is none."""
        if self._found is None:
            self._found = (
                ("failed", outcome.message)
                if isinstance(outcome, ProgramError)
                else self._taken(outcome)
            )

    def _taken(self, outcome: Outcome) -> tuple[Verdict, str] | None:
        """Take in a pair, and return why no other one is needed."""
        pair, new = outcome.pair, outcome.new
        self._circumstances, self._places = new.circumstances, new.places
        if not all(new.counts):
            unused = [str(fix) for fix, n in zip(self.candidate.fixes, new.counts) if not n]
            return "not-applied", f"the program has nothing that it changes: {unused[0]}"
        if refused := self._refused(outcome.old, new):
            return refused
        if not pair.rounds:
            return "failed", "the program ended before a step was timed; let it do more steps"
        self._pairs.append(pair)
        slower = all(old < new for old, new in pair.rounds)
        hopeless = _HOPELESS_WHEN_BUSY if self._trials.doubts else _HOPELESS
        if len(self._pairs) == 1 and slower and pair.speedup <= hopeless:
            return "not-faster", f"slower in each round of the first pair ({pair.speedup:.2f}×)"
        return None

    def decide(self, last: bool) -> None:
        """Decide it where its pairs are enough, or where none follows."""
        self._found = self._decided()
        if self._found is None and (last or self._seconds > self._trials.settings.seconds):
            self._found = ("undecided", "its interval is too wide to say that it is faster")

    def _refused(self, old: Run, new: Run) -> tuple[Verdict, str] | None:
        if self._is_drawn_alike:
            return None
        found = self._trials.compared(old, new, self._tolerance, self._accuracy)
        compiles = any(
            fix == COMPILED_MODELS or isinstance(fix, CompiledFunction)
            for fix in self.candidate.fixes
        )
        stable = self._trials.unstable is None
        if stable and compiles and found.compared and not found.equal:
            # Such as dropout: what differs may be no more than which numbers were drawn.
            try:
                alike = self._trials.drawn_alike(self.candidate.fixes)
            except ProgramError as error:
                return "failed", error.message
            found = self._trials.compared(old, alike, self._tolerance, self._accuracy)
            self._is_drawn_alike = found.equal
        # What is kept of all pairs is the one that differs most from the original.
        if self._comparison is None or not found.equal:
            self._comparison = found
        if stable and found.compared and not found.equal:
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
