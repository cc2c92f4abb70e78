"""Profiling of a fraction of a program's steps: which ones, and what they say of all.

In: ends of steps, from the program (`step`) or from PyTorch's optimizers (`optimizers`).  Out:
sessions that record and pause, and an estimate; looks at how memory grows. A step ends where the
next one begins. What comes before the end of the first is set-up: recorded in full, and kept apart.
Where all steps are recorded, the first ones of optimizers are set-up too (`WarmUp`): compilation,
first calls of libraries, and memory that is taken from the system are in them.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Protocol

from tileprof.profile import StepTimes
from tileprof.profiler.frameworks import optimizers
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.locks import new_lock
from tileprof.profiler.options import Options


class MarkedSteps(Protocol):
    """Steps that somebody counts."""

    def mark(self, by_hand: bool) -> None:
        """End a step and begin the next one; `by_hand`: the program says so itself."""


_open: list[MarkedSteps] = []


def step() -> None:
    """Mark the end of a step of the program, such as one iteration of its main loop.

    With `duty` or `every`, a session records a fraction of the steps. With `memory`, it reports
    memory that grows from step to step. Once it is called, steps of PyTorch's optimizers no longer
    count. Without such a session, a call costs less than 0.1 µs.
    """
    if _open:
        for steps in _open[:]:
            steps.mark(by_hand=True)


def listen(steps: MarkedSteps) -> None:
    """Let somebody count the steps that the program marks, until the process ends."""
    _open.append(steps)


class StepRecording(Protocol):
    """Recording that is switched on and off between steps."""

    @property
    def recorder(self) -> Recorder:
        """Recorder that all sessions share."""

    def refresh(self) -> None:
        """Record for those sessions that want it now."""


class SteppedSession(Protocol):
    """Session that records a fraction of its program's steps."""

    options: Options
    active: bool

    @property
    def recording(self) -> StepRecording:
        """Recording that the session belongs to."""

    def end_setup(self) -> None:
        """Keep what was recorded until now apart from the steps that follow."""


class Steps:
    """The steps of one session in one process."""

    def __init__(self, session: SteppedSession) -> None:
        self.recording = True
        """Whether what happens now is wanted."""
        self._session = session
        self._clock = session.recording.recorder.clock
        self._lock = new_lock()
        self._by_hand = False
        self._restart()
        _open.append(self)
        optimizers.attach(self._mark_automatically)

    def _restart(self) -> None:
        self._began: int | None = None
        self._devices_began = 0
        self._interrupted = False
        self._choice = choice(self._session.options)
        self._recorded, self._skipped, self._devices = Moments(), Moments(), Moments()

    def close(self) -> None:
        """Count no further steps."""
        optimizers.detach(self._mark_automatically)
        if self in _open:
            _open.remove(self)

    def interrupt(self) -> None:
        """Do not count the step that is under way: the session was paused or goes on in it."""
        self._interrupted = True

    def _mark_automatically(self) -> None:
        self.mark(by_hand=False)

    def mark(self, by_hand: bool) -> None:
        """End a step and begin the next one."""
        with self._lock:
            if by_hand and not self._by_hand:
                # Steps until now were those of optimizers, and the program means others.
                self._by_hand = True
                self._restart()
            elif self._by_hand and not by_hand:
                return
            now = self._clock()
            if self._began is None:
                self._session.end_setup()
                now = self._clock()
            elif not self._interrupted:
                self._count(now - self._began)
            self._interrupted = not self._session.active
            self._began = now
            self._go_on(next(self._choice))

    def _count(self, took: int) -> None:
        if self.recording:
            self._recorded.add(took)
            self._devices.add(self._session.recording.recorder.device_ns - self._devices_began)
        else:
            self._skipped.add(took)

    def _go_on(self, recording: bool) -> None:
        if recording != self.recording:
            self.recording = recording
            self._session.recording.refresh()
            # What that took is no step's.
            self._began = self._clock()
        if recording:
            self._devices_began = self._session.recording.recorder.device_ns

    def provenance(self, launched_ns: int, late_ns: int) -> dict[str, str]:
        """Return what is known now of all steps.

        `launched_ns` and `late_ns` are what devices took in the recorded ones: what launches told
        when they ended, and what was told later, so that it is not known of which step it was.
        """
        recorded, skipped, devices = self._recorded, self._skipped, self._devices
        steps = recorded.count + skipped.count
        means = {}
        if recorded.count:
            means["cpu_time"] = (recorded.mean, recorded.error(steps))
            if late_ns:
                means["time"] = ((launched_ns + late_ns) / recorded.count, math.nan)
            elif devices.mean:
                means["time"] = (devices.mean, devices.error(steps))
        others = skipped.mean if skipped.count else math.nan
        return StepTimes(recorded.count, steps, means, others).provenance()


class MemorySteps:
    """Tells of the steps after which memory is looked at, to find what grows."""

    def __init__(self, end_step: Callable[[], None]) -> None:
        self._end_step = end_step
        self._by_hand = False
        _open.append(self)
        optimizers.attach(self._stepped)

    def close(self) -> None:
        """Tell of no further steps."""
        optimizers.detach(self._stepped)
        _open.remove(self)

    def mark(self, by_hand: bool) -> None:
        """End a step; once the program marks steps by hand, those of optimizers count no more."""
        self._by_hand |= by_hand
        if by_hand == self._by_hand:
            self._end_step()

    def _stepped(self) -> None:
        self.mark(by_hand=False)


class WarmUp:
    """The first steps of optimizers in a session that records all of them: they end its set-up."""

    def __init__(self, session: SteppedSession) -> None:
        self._session = session
        self._lock = new_lock()
        self._steps = 0
        self._length = session.options.warm_up
        if self._length:
            optimizers.attach(self._stepped)

    @property
    def stands_apart(self) -> bool:
        """Whether at least as many steps have followed as the set-up has; else all is one."""
        return self._length > 0 and self._steps >= 2 * self._length

    def close(self) -> None:
        """Count no further steps."""
        optimizers.detach(self._stepped)

    def _stepped(self) -> None:
        if _is_captured():
            return  # A graph must not be disturbed, and nothing runs in it yet.
        with self._lock:
            self._steps += 1
            ends = self._steps == self._length
        if ends:
            self._session.end_setup()


def _is_captured() -> bool:
    """Return whether what the calling thread launches now goes into a CUDA graph."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    return cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing()


def choice(options: Options) -> Iterator[bool]:
    """Return for each step whether it is recorded: every n-th, or a share `duty` at random.

    Random ones, because what a program does at each n-th step would be seen always or never. One
    in each window, so that no long time goes unseen. A rerun, or another process of the same job,
    records the same ones: they wait for each other, and the cost is theirs together.
    """
    if options.every is not None:
        yield from (number % options.every == 0 for number in count())
    chance = random.Random(0)
    window = 1 / (options.duty or 1)
    while True:
        # Whole numbers whose mean is the window; their changes keep step with nothing.
        length = int(window) + (chance.random() < window % 1)
        chosen = chance.randrange(length)
        yield from (number == chosen for number in range(length))


_Z = 1.959963984540054
"""The normal distribution's quantile for 95 %, both sides."""
_FEW = (math.nan, 12.7062, 4.30265, 3.18245, 2.77645, 2.57058)


class Moments:
    """Count, mean and spread of numbers that are not kept (Welford)."""

    __slots__ = ("_squares", "count", "mean")

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    def add(self, value: float) -> None:
        """Take a number in."""
        self.count += 1
        off = value - self.mean
        self.mean += off / self.count
        self._squares += off * (value - self.mean)

    def error(self, whole: int) -> float:
        """Half the width of the 95 % interval of the mean of all `whole` numbers.

        These were drawn from them, so that nothing is unknown once all are. NaN for a single one.
        """
        if self.count >= whole:
            return 0.0
        if self.count < 2:
            return math.nan
        variance = self._squares / (self.count - 1) / self.count * (1 - self.count / whole)
        return students_t(self.count - 1) * math.sqrt(variance)


def students_t(freedom: int) -> float:
    """Student's t for 95 %, both sides, right to 0.1 %; `freedom` is 1 at least."""
    if freedom < len(_FEW):
        return _FEW[freedom]
    # Cornish and Fisher's expansion (Abramowitz and Stegun, 26.7.5).
    z, n = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
    )
