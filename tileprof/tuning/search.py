"""The search: rank by the model, compile the best, time a few in pairs until the winner is sure.

In: a `Subject`, which is a kernel with its arguments on a device, and `Settings`.  Out: an
`Outcome`.

1. Configurations are lowered and ranked by the model: all that the author lists, else those on the
   way from the default to the model's best, by steps of single arguments from the best few.
2. The machine code of the best is made, which tells registers and spills; they are ranked anew.
3. One after the other is timed against the fastest so far, whose neighbours are lowered too: next
   is always the one with the largest expected gain, by the model corrected with all times so far,
   until none is worth its time.
4. The best two take turns until it is sure which is faster.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from tileprof import ir
from tileprof.bench import Timer
from tileprof.errors import ExecutionError, KernelError, TileprofError, UsageError
from tileprof.progress import working
from tileprof.runtime import hooks
from tileprof.runtime.cuda.binary import CudaBinary

from .configurations import Configuration
from .guesses import rank_correlation
from .machine import Gpu, Machine
from .model import estimate
from .numbers import (
    ALIKE_COMPILED,
    BEAM,
    FINAL_SECONDS,
    LEAST_SPILL,
    MOST_COMPILED,
    MOST_TIMED,
    MOST_TRIALS,
    PAIR_SECONDS,
    SURE,
    WORTH,
)
from .outcomes import Measured, Outcome, Seconds
from .ruled_out import RuledOut
from .space import Space
from .table import Table
from .timing import compared, prepared
from .trials import Order, Refused, Trial
from .workers import Workers

_OUT_OF_REACH = 1.5
"""Ratio of times from which the last comparison would say nothing new."""
_FINALISTS = 2
"""Configurations that the fastest is compared with at the end."""


class Ready(Protocol):
    """A configuration that is ready to run."""

    def run(self) -> Any:
        """Launch it."""

    def fault(self) -> str:
        """Run it once, and return how its results differ from what they should be; '' where they
        do not."""


class Subject(Protocol):
    """A kernel with its arguments."""

    @property
    def name(self) -> str:
        """The kernel's name."""

    @property
    def space(self) -> Space:
        """Configurations to choose from."""

    @property
    def machine(self) -> Machine:
        """Facts about the device that the model uses."""

    @property
    def device(self) -> str:
        """The device; '' where nothing can run."""

    def traced(self, configuration: Configuration) -> ir.Kernel:
        """Return the traced kernel; TileprofError, or an error of the author's, where there is
        none."""

    @property
    def takes_binaries(self) -> bool:
        """Whether `ready` can use the machine code of a trial."""

    def ready(self, configuration: Configuration, binary: CudaBinary | None = None) -> Ready:
        """Make a configuration ready on the device, from machine code where it is there; errors as
        of a call."""

    def timer(self) -> Timer:
        """Return the timer of the device."""


class Trials(Protocol):
    """Maker of trials."""

    def trials(self, orders: Sequence[Order], what: str = "trial compiles") -> list[Trial]:
        """Make trials, in the order of `orders`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Limits of a search."""

    timed: int = MOST_TIMED
    """Most configurations that are timed; 0 ranks by the model alone."""
    trials: int = MOST_TRIALS
    """Most configurations that are lowered."""
    compiled: int = MOST_COMPILED
    """Most configurations whose machine code is made in trials."""
    seconds: float = math.inf
    """Time limit of the whole search; what is best then wins."""
    workers: int | None = None
    """Processes that compile at once; None for as many as there are processors."""
    seed: int = 0
    """Seed of the choice where a space is too large to be looked at whole."""


def tuned(
    subject: Subject,
    settings: Settings | None = None,
    *,
    around: Callable[[Configuration], Any] | None = None,
    workers: Trials | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Outcome:
    """Search, and return what was found; UsageError where no configuration can be compiled.

    `around` gives a context in which one configuration is checked and timed.  `workers` make the
    trials; processes of their own without any.
    """
    chosen = settings or Settings()
    if workers is not None:
        return _Search(subject, chosen, workers, around, clock).run()
    with Workers(chosen.workers) as made:
        return _Search(subject, chosen, made, around, clock).run()


class _Search:
    """One search."""

    def __init__(
        self,
        subject: Subject,
        settings: Settings,
        workers: Trials,
        around: Callable[[Configuration], Any] | None,
        clock: Callable[[], float],
    ) -> None:
        self._subject, self._settings, self._workers = subject, settings, workers
        self._space, self._machine = subject.space, subject.machine
        self._around, self._clock = around or (lambda _: nullcontext()), clock
        self._table = Table(subject.space)
        self._ruled = RuledOut(self._space)
        self._notes: list[str] = []
        self._began = clock()

    def run(self) -> Outcome:
        """Take all steps."""
        self._lower()
        lowered = self._clock()
        self._compile()
        compiled = self._clock()
        sure = False
        if self._settings.timed > 0 and self._subject.device:
            sure = self._time()
        over = self._clock()
        seconds = Seconds(lowered - self._began, compiled - lowered, over - compiled)
        return self._outcome(seconds, sure)

    # -- 1: the model

    def _lower(self) -> None:
        default = self._space.default
        if self._space.listed:
            listed = list(self._space.listed)
            if len(listed) > self._settings.trials:
                self._notes.append(
                    f"{len(listed) - self._settings.trials:,} of {len(listed):,} configurations "
                    "were left out at random: more are tried with a larger limit of trials"
                )
                chosen = random.Random(self._settings.seed)
                others = [c for c in listed if c != default]
                listed = [default, *chosen.sample(others, self._settings.trials - 1)]
            self._try(listed)
        else:
            self._climb([default, *self._seeds()])
        if not self._table.predicted():
            self._raise_refused(default)

    def _seeds(self) -> list[Configuration]:
        """Return configurations to begin at, besides the default: some at random, so that a poor
        default does not decide."""
        chosen = random.Random(self._settings.seed)
        made = []
        for _ in range(2 * BEAM):
            values = ((t.name, chosen.choice(t.values)) for t in self._space.tunables)
            made.append(Configuration(tuple(values)))
        return made

    def _climb(self, begin: Sequence[Configuration]) -> None:
        self._try(begin)
        expanded: set[Configuration] = set()
        while len(self._table.tried()) < self._settings.trials and not self._is_late():
            best = [c for c in self._table.ranked() if c not in expanded][:BEAM]
            # Only from the best few: others lead where the model expects nothing.
            best = [c for c in best if c in self._table.ranked()[: 3 * BEAM]]
            if not best:
                return
            expanded.update(best)
            near = dict.fromkeys(n for c in best for n in self._space.neighbours(c))
            left = self._settings.trials - len(self._table.tried())
            self._try([n for n in near if n not in self._table][:left])

    def _try(self, wanted: Iterable[Configuration]) -> None:
        """Lower configurations that are not known yet."""
        orders: list[tuple[Configuration, Order]] = []
        # From the smallest on, so that failures rule out what is larger.
        for configuration in sorted(dict.fromkeys(wanted), key=_size):
            if configuration in self._table:
                continue
            known = self._table.add(configuration)
            if (failure := self._ruled.by(configuration)) is not None:
                known.because, known.verdict = failure, "ruled-out"
                continue
            made = self._traced(configuration)
            if isinstance(made, Refused):
                known.refuse(made)
                continue
            orders.append((configuration, self._order(configuration, made, compiled=False)))
        for (configuration, _), trial in zip(
            orders, self._workers.trials([order for _, order in orders])
        ):
            self._learn(configuration, trial)

    def _traced(self, configuration: Configuration) -> ir.Kernel | Refused:
        try:
            return self._subject.traced(configuration)
        except TileprofError as error:
            return Refused(error.message, error.hint, getattr(error, "resource", None))
        except Exception as error:
            return Refused(f"{type(error).__name__}: {error}", "")

    def _order(self, configuration: Configuration, kernel: ir.Kernel, *, compiled: bool) -> Order:
        machine = self._machine
        target, sms = (machine.target, machine.sms) if isinstance(machine, Gpu) else ("", 1)
        binary = compiled and self._settings.timed > 0 and self._subject.takes_binaries
        return Order(kernel, configuration.lowering, target, sms, compiled, binary)

    def _learn(self, configuration: Configuration, trial: Trial) -> None:
        known = self._table[configuration]
        known.trial = trial
        if trial.refused is not None:
            known.refuse(trial.refused)
            self._ruled.learn(configuration, trial.refused.resource)
            return
        assert trial.facts is not None
        known.estimate = estimate(trial.facts, self._machine)
        if not math.isfinite(known.estimate.ns):
            known.refuse(Refused("no block of it fits into a multiprocessor", ""))
        elif trial.facts.spilled >= LEAST_SPILL:
            known.verdict = "spills"
            self._ruled.learn(configuration, "registers")

    # -- 2: machine code

    def _compile(self) -> None:
        if not isinstance(self._machine, Gpu):
            return
        left = self._settings.compiled
        while left > 0 and not self._is_late():
            # A quarter at a time, as spills of some change the order of the others.
            fresh = [c for c in self._unlike() if not self._is_compiled(c)]
            wanted = fresh[: max(1, min(left, self._settings.compiled // 4))]
            if not wanted:
                return
            left -= len(wanted)
            kernels = [self._subject.traced(c) for c in wanted]
            orders = [self._order(c, k, compiled=True) for c, k in zip(wanted, kernels)]
            for configuration, trial in zip(wanted, self._workers.trials(orders, "machine code")):
                self._learn(configuration, trial)
                if trial.facts is not None and not trial.compiled:
                    if not self._notes:
                        self._notes.append("registers and spills are estimates: NVRTC is missing")
                    return

    def _is_compiled(self, configuration: Configuration) -> bool:
        trial = self._table[configuration].trial
        return trial is not None and trial.compiled

    def _unlike(self) -> list[Configuration]:
        """Return the best of the model, few of those that have the same tiles, stages and threads;
        as many as are compiled."""
        roles, counts = self._space.roles(), dict[object, int]()
        kept = []
        for configuration in self._table.ranked():
            held = tuple(p for p in configuration.arguments if roles[p[0]] != "raster")
            counts[held] = counts.get(held, 0) + 1
            if counts[held] <= ALIKE_COMPILED:
                kept.append(configuration)
        return kept[: self._settings.compiled]

    # -- 3 and 4: times

    def _time(self) -> bool:
        """Time configurations; return whether the winner is sure."""
        timer = self._subject.timer()
        best: Configuration | None = None
        with working("timing", self._settings.timed) as task:
            for _ in range(self._settings.timed):
                chosen = self._next(best)
                if chosen is None or (best is not None and self._is_late()):
                    break
                task.tell(f"timing {chosen}")
                with self._around(chosen):
                    is_fastest = self._timed(chosen, best, timer)
                if is_fastest:
                    best = chosen
                    if not self._space.listed and not self._is_late():
                        # The model may expect nothing around what is in truth the fastest.
                        left = max(0, self._settings.trials - len(self._table.tried()))
                        near = [n for n in self._space.neighbours(best) if n not in self._table]
                        self._try(near[:left])
                task.done += 1
        if best is None:
            raise self._nothing_ran()
        return self._final(best, timer)

    def _nothing_ran(self) -> ExecutionError:
        """Return the error that no configuration ran as it should, with what the first one did."""
        reason = next((k.reason for k in self._table.known.values() if k.reason), "none was tried")
        return ExecutionError(
            f"no configuration of `{self._subject.name}` can be used: {reason}",
            hint="Call the kernel with its defaults, and compare it with the reference.",
        )

    def _next(self, best: Configuration | None) -> Configuration | None:
        """Return what is timed next; None where nothing is worth it."""
        default = self._space.default
        times = self._table.times()
        if not times:
            # The default first: its results are those that others are compared with.
            first = (default, *self._table.ranked())
            return next(filter(self._table.is_open, first), None)
        assert best is not None
        expected = self._table.guesses()
        open_ones = [c for c in expected if self._table.is_open(c)]
        if not open_ones:
            return None
        gain = {c: expected[c].gain(times[best]) for c in open_ones}
        chosen = max(open_ones, key=lambda c: gain[c])
        return chosen if gain[chosen] >= WORTH else None

    def _timed(self, chosen: Configuration, best: Configuration | None, timer: Timer) -> bool:
        """Check and time one configuration; return whether it is the fastest now."""
        known = self._table[chosen]
        try:
            ready = self._subject.ready(chosen, known.trial.binary if known.trial else None)
            fault = ready.fault()
            if fault:
                known.verdict, known.reason = "wrong", fault
                return False
            with hooks.unrecorded():
                known.batches = prepared(timer, ready.run)
        except (TileprofError, RuntimeError) as error:
            known.verdict, known.reason = "failed", str(error).partition("\n")[0]
            if isinstance(error, KernelError):
                self._ruled.learn(chosen, getattr(error, "resource", None))
            return False
        if best is None:
            known.measured = Measured(known.batches.first_ns, None, None, 1, 1)
            return True
        held = self._table[best].batches
        assert held is not None
        with hooks.unrecorded():
            found = compared(timer, known.batches, held, PAIR_SECONDS)
        self._table.note(chosen, best, found)
        return found.is_faster

    def _final(self, best: Configuration, timer: Timer) -> bool:
        """Let the best two take turns; note verdicts, and return whether the winner is sure."""
        times = self._table.times()
        others = sorted((c for c in times if c != best), key=lambda c: times[c])
        sure = True
        for other in others[:_FINALISTS]:
            if times[other] > _OUT_OF_REACH * times[best] or self._table.is_settled(other, best):
                continue
            ours, theirs = self._table[best].batches, self._table[other].batches
            assert ours is not None
            assert theirs is not None
            with hooks.unrecorded():
                found = compared(timer, theirs, ours, FINAL_SECONDS)
            self._table.note(other, best, found)
            sure = sure and found.decided
            if found.is_faster:
                best = other
        for each in times:
            near = self._table.times()[each] < (1 + SURE) * self._table.times()[best]
            self._table[each].verdict = "equal" if near else "slower"
        self._table[best].verdict = "winner"
        return sure

    def _is_late(self) -> bool:
        return self._clock() - self._began > self._settings.seconds

    def _raise_refused(self, default: Configuration) -> None:
        """UsageError with the reason against the default, or the first configuration."""
        refused = self._table[default].refused if default in self._table else None
        others = (each.refused for each in self._table.known.values())
        refused = refused or next(filter(None, others), None)
        raise UsageError(
            f"no configuration of `{self._subject.name}` can be compiled: "
            f"{refused.message if refused else 'none is left'}",
            hint=refused.hint if refused else "",
        )

    def _outcome(self, seconds: Seconds, sure: bool) -> Outcome:
        predicted, times = self._table.predicted(), self._table.times()
        if not any(each.verdict == "winner" for each in self._table.known.values()):
            self._table[self._table.ranked()[0]].verdict = "winner"
        both = [c for c in times if c in predicted]
        return Outcome(
            self._subject.name, self._subject.device, self._machine.name, self._space,
            tuple(self._table.looked()), seconds, sure,
            rank_correlation([predicted[c] for c in both], [times[c] for c in both]),
            tuple(self._notes),
        )  # fmt: skip


def _size(configuration: Configuration) -> float:
    """Return the product of the numbers of a configuration."""
    numbers = (v for _, v in configuration.arguments if isinstance(v, int | float) and v > 0)
    return math.prod(float(v) for v in numbers)
