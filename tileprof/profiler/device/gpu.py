"""Recording of what GPUs do, switched on and off: CUPTI behind the native recorder.

In: sessions that begin and end, other profilers that come and go.  Out: records in the native
recorder's totals (`activities` reads them), and in words what is missing or was lost.

The recorder stays CUPTI's one subscriber from the first session on; between sessions it is paused,
which costs nothing. When another profiler starts in the process, it is given what only one can have
and the gap is noted; afterwards recording goes on. A profiler that traces already when a session
begins keeps CUPTI until its trace ends.
"""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from types import ModuleType

from tileprof.profiler.counters.control import CounterControl, Prepared
from tileprof.profiler.counters.instructions import InstructionCounting
from tileprof.profiler.counters.series_control import PreparedSeries, SeriesControl
from tileprof.profiler.cupti.cupti_library import VARIABLE, find_cupti, other_copy, why_not
from tileprof.profiler.cupti.other_profilers import (
    KINETO,
    OtherProfilers,
    who_holds,
    who_keeps,
    who_may_hold,
)
from tileprof.profiler.cupti.refusals import refusal
from tileprof.profiler.locks import new_lock
from tileprof.profiler.pcs.options import PcOptions
from tileprof.profiler.pcs.sampling import PcSampling
from tileprof.runtime.cuda.driver import driver_start

_DEVICES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")
"""One of these is there where a GPU of NVIDIA's is (the last: in Windows Subsystem for Linux)."""

_LOSSES = {
    "dropped": "records that CUPTI had no buffer for",
    "evicted": "launches whose records came too late to be told apart",
    "unattributed": "records of launches that are not known",
    "foreign": "records of kinds that were not asked for",
    "unreadable": "buffers that could not be read",
    "uncaptured": "kernels of graphs whose capture was not seen, as before the recording",
}
"""Counts of the native recorder that a user should know of when they are not 0."""

_watching: list[Gpu] = []
"""The instance of a recording that has ended and still has CUPTI, which it gives to another
profiler that wants it; empty where there is none."""


class Gpu:
    """CUPTI for the recordings of this process."""

    def __init__(self, native: ModuleType) -> None:
        self._native = native
        self._codes: dict[str, int] = native.GPU_CODES
        self._kinds: list[int] = list(native.RECORD_KINDS.values())
        self._lock = new_lock()
        self._wanted = False
        self._timeline = 0
        self._given: tuple[str, float] | None = None
        """Session that was given CUPTI, and since when."""
        self._gaps: list[str] = []
        self._unread = ""
        """Description of lost records, if the last ones did not all arrive."""
        self._others: OtherProfilers | None = None
        self._failed = False
        self.pcs = PcSampling(native)
        self.counters = CounterControl(native)
        self.over_time = SeriesControl(native)
        self.instructions = InstructionCounting(native)
        self.library = ""
        """Path of CUPTI, once it is loaded."""
        self.problem = ""
        """Why GPUs are not recorded, where there are some."""

    @property
    def running(self) -> bool:
        """Whether work on GPUs is recorded."""
        return bool(self._native.gpu_started())

    def begin(self, sampling: PcOptions | None = None) -> None:
        """Record from here on, if there is anything to record; with samples of program counters."""
        with self._lock:
            self._wanted = True
            self.pcs.want(sampling)
            if self._given is not None:
                return
            if self.running:
                self._go_on()
            elif not self._failed and has_gpu():
                self._start()

    def want_counters(self, prepared: Prepared | None) -> None:
        """Read hardware counters of launches from the next `begin` on, and no records meanwhile:
        CUPTI repeats each launch until all counters are read. Or count instructions."""
        with self._lock:
            # Of instructions, what was asked for first stays for all of the recording.
            plan = prepared.instructions if prepared and not self.instructions.plan else None
            if prepared is None or not (plan or self.counters.is_news(prepared)):
                return
            if self.running:
                self._native.gpu_stop()
            if plan is not None:
                self.instructions.want(plan)
            else:
                self.counters.want(prepared)

    def want_series(self, prepared: PreparedSeries | None) -> None:
        """Sample hardware counters over time from the next `begin` on, beside all else."""
        with self._lock:
            self.over_time.want(prepared)

    def limit_timeline(self, most: int) -> None:
        """Keep so many single events at most; 0: none."""
        with self._lock:
            self._timeline = most
            self._native.gpu_limit_timeline(most)

    def pause(self) -> None:
        """Record nothing until `begin`."""
        with self._lock:
            self._wanted = False
            if self.running:
                self._native.gpu_pause()

    def settle(self) -> None:
        """Wait for what was launched, where its samples would be cut off otherwise."""
        if self.running and (self.pcs.wanted or self.instructions.plan is not None):
            self._native.gpu_settle()

    def end(self) -> None:
        """Record nothing more; what other profilers do is no longer watched."""
        self.pause()
        self.pcs.want(None)
        if self.counters.plan is not None:
            self._native.gpu_stop()
            self.counters.stop()
        if self.instructions.plan is not None:
            self._native.gpu_stop()
            self.instructions.stop()
        self.over_time.stop()
        # Paused, it still has CUPTI, which another profiler may want before the next recording.
        if self.running:
            _watching.append(self)
        else:
            self._forget_others()

    def flush(self, force: bool) -> None:
        """Have records of ended work handed over; with `force` of all work, waiting for it."""
        if self.running:
            code, text = self._native.gpu_flush(force)
            if force:
                self._unread = text if code else self._missing()
                self._check()

    def facts(self) -> dict[str, str]:
        """Return what provenance tells: the library, what is missing, what was lost."""
        facts: dict[str, str] = {}
        if self.library:
            facts["cupti"] = f"{_version(self._native.gpu_version())} ({self.library})"
            counts = self._native.gpu_counts()
            lost = [f"{counts[key]:,} {what}" for key, what in _LOSSES.items() if counts.get(key)]
            if self._unread:
                lost.append(self._unread)
            if lost:
                facts["lost"] = "; ".join(lost)
            if counts.get("late"):
                facts["idle time"] = f"{counts['late']:,} records came too late to be put in order"
        if gaps := self._gaps_until_now():
            facts["gaps"] = "; ".join(gaps)
        facts |= self.pcs.facts(recorded=bool(self.library))
        facts |= self.counters.facts() | self.instructions.facts() | self.over_time.facts()
        if self.problem:
            facts["gpu"] = f"not recorded: {self.problem}"
        return facts

    def after_fork(self) -> None:
        """Forget, in a forked child, what was the parent's: no GPU works there."""
        self._native.gpu_after_fork()
        self.pcs = PcSampling(self._native, forked=True)
        self.counters = CounterControl(self._native)
        self.over_time = SeriesControl(self._native)
        self.instructions = InstructionCounting(self._native)
        self.library, self._failed = "", True

    def _missing(self) -> str:
        """Return how many launches left no record although all work was waited for; '' for none."""
        if self.counters.plan is not None:  # then no launch leaves records
            return ""
        counts = self._native.gpu_counts()
        missing = counts["unsettled"] - counts["dropped"]
        if missing <= 0:
            return ""
        launches = "1 launch" if missing == 1 else f"{missing:,} launches"
        return f"{launches} of which no record came, as of a kernel that fails or does not end"

    def _check(self) -> None:
        """Note whether somebody took the calls or the records that were ours; take them back."""
        code, text = self._native.gpu_health()
        if code and text not in self._gaps:
            self._gaps.append(text)
            self._native.gpu_reclaim()

    def _go_on(self) -> None:
        """Record with what an earlier recording has started."""
        if self._succeeded(self._native.gpu_resume()):
            self._watch_others()
            if not self.library:
                found = find_cupti()
                self.library = str(found.path) if found is not None else "loaded before"

    def _start(self, after: str = "") -> None:
        """Begin, at first or right `after` a trace of another profiler."""
        found = find_cupti()
        if found is None:
            self._failed, self.problem = True, why_not()
            return
        kinds = self._kinds if self.counters.plan is None else []
        with driver_start():
            answer = self._native.gpu_start(str(found.path), kinds, self._timeline)
        refused = answer[0] == self._codes["other_subscriber"]
        if refused and self._others is None and who_holds() == KINETO:
            # It traces already; what is to come after its trace is recorded.
            self._given = (KINETO, time.monotonic())
            self._watch_others(KINETO)
        elif self._succeeded(answer):
            self.library = str(found.path)
            self._watch_others()
        elif refused and after:
            self.problem = who_keeps(after)

    def _watch_others(self, *tracing: str) -> None:
        """See other profilers come and go, instead of who did so for an earlier recording."""
        while _watching:
            _watching.pop()._forget_others()
        self._others = self._others or OtherProfilers(self._give, self._take_back, tracing)

    def _forget_others(self) -> None:
        if self._others is not None:
            self._others.forget()
            self._others = None

    def _gaps_until_now(self) -> list[str]:
        """Return the gaps in words, with the one that is open."""
        if (given := self._given) is None:
            return self._gaps
        name, since = given
        return [*self._gaps, f"{name} has had CUPTI for {time.monotonic() - since:.1f} s"]

    def _give(self, name: str) -> None:
        """Leave CUPTI to another profiler that is about to start."""
        with self._lock:
            if self._given is None:
                self._given = (name, time.monotonic())
                if self.running:
                    self._native.gpu_stop()

    def _take_back(self) -> None:
        """Go on after another profiler has ended."""
        with self._lock:
            if self._given is None:
                return
            (name, since), self._given = self._given, None
            self._gaps.append(f"{name} had CUPTI for {time.monotonic() - since:.1f} s")
            if self._wanted:
                self._start(after=name)

    def _succeeded(self, answer: tuple[int, str]) -> bool:
        code, text = answer
        if code == 0:
            self.problem = ""
            return True
        if code == self._codes["other_subscriber"]:
            self.problem = f"{who_holds() or who_may_hold()} has CUPTI already"
        else:
            refused = refusal(code, f"{text}, {code}", "CUPTI records no kernels")
            self.problem = refused or text
        if code in (self._codes["not_loaded"], self._codes["unknown_records"]):
            self.problem = f"{text}: {other_copy()}"
        # Another try would find the same, and cost as much.
        self._failed = True
        return False


def has_gpu() -> bool:
    """Tell whether there is a GPU of NVIDIA's, without asking its driver."""
    return bool(os.environ.get(VARIABLE)) or _has_device()


@cache
def _has_device() -> bool:
    return any(Path(each).exists() for each in _DEVICES)


def _version(number: int) -> str:
    if number < 100_000:  # CUDA 12 and before: numbers of the interface alone
        return f"interface {number}"
    return f"{number // 10000}.{number % 10000 // 100}.{number % 100}"
