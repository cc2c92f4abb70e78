"""One session: what it asked for, what it was given, the profile it becomes, the file it writes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from tileprof.errors import OutputError, UsageError
from tileprof.profile import (
    SETUP,
    CounterSeries,
    PcSamples,
    Profile,
    Tables,
    Timeline,
    TreeBuilder,
)
from tileprof.profiler.device import devices
from tileprof.profiler.endings.deferred_signals import deferred
from tileprof.profiler.endings.termination import Termination
from tileprof.profiler.host.excerpts import cta_timelines
from tileprof.profiler.host.late_measurements import add_records
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.host.store import Store
from tileprof.profiler.locks import new_lock
from tileprof.profiler.options import Options, tagged
from tileprof.profiler.pcs.kernel_samples import Period
from tileprof.profiler.pcs.listings import files_of
from tileprof.profiler.session import provenance
from tileprof.profiler.session.node_tracks import track_totals
from tileprof.profiler.session.snapshot import build_tree, device_ns, gather
from tileprof.profiler.session.steps import Steps, WarmUp
from tileprof.profiler.session.xla_work import with_product
from tileprof.profiler.tree.numbers import Numbers
from tileprof.profiler.tree.sources import Sources
from tileprof.profiler.tree.totals import LaunchTotals

if TYPE_CHECKING:
    from tileprof.profiler.counters.control import Prepared
    from tileprof.profiler.counters.series_control import PreparedSeries

EARLY_S = 0.5
"""Seconds until the first flush: a program that is killed soon leaves a profile too."""
PATIENCE = 20
"""Flushing takes at most one part in this many of the time."""


class SharedRecording(Protocol):
    """Recording that a session is one of several users of."""

    recorder: Recorder
    sources: Sources
    sessions: list[Session]

    def refresh(self) -> None:
        """Record for those sessions that want it now, in the detail that they want."""

    def forget_samples(self) -> None:
        """Give no further time to where threads were seen before."""

    def leave(self, session: Session) -> None:
        """Let a session go; the last one ends the recording."""

    def facts(self) -> dict[str, str]:
        """Return provenance of the process and of what was recorded in it."""

    def enter_program(self, frame: FrameType) -> None:
        """Take a frame for the program's outermost one, and forget what led to it."""

    def work(self) -> None:
        """Start the background thread if something needs it."""

    def attend(self, termination: Termination | None) -> None:
        """Take over the handling of signals around forks, or let go of it with None."""


class Session:
    """A recording in progress, as `start` or `profile` returns it.

    `deactivate` and `activate` pause and resume it. `finalize` ends it, writes the file if there is
    a path, and returns the profile, which is then also in `profile`. `write_copy` writes what was
    recorded so far to another file.
    """

    def __init__(
        self,
        recording: SharedRecording,
        path: Path | None,
        options: Options,
        counters: Prepared | None = None,
        over_time: PreparedSeries | None = None,
    ) -> None:
        self.options = options
        self.counters = counters
        """Outcome of the request for hardware counters, where there was one."""
        self.over_time = over_time
        """The same of hardware counters over time."""
        self.path = path
        """Path of the profile; None for a session that only returns it, or was discarded."""
        self.profile: Profile | None = None
        """The result, once the session is final."""
        self.of_steps: Profile | None = None
        """The same without set-up, where there is any."""
        self.active = True
        self.held = False
        """Whether it waits for the first `activate`; until then no file is written."""
        self.recording = recording
        self._start = provenance.of_start(options)
        self.ended = ""
        """Ending of the program that ran in the session, where it did not run to its end."""
        self.child = False
        """Whether the process is a child of the one that the session was started in."""
        self.original = path
        """The path of the process that all began with."""
        self.in_spawned: Callable[[], str] = str
        """Returns Python that a child which is spawned now runs once it has begun to record."""
        self._begin()

    def __repr__(self) -> str:
        """Return the state, the file, and where the result is, as a notebook shows a session."""
        file = f", file {self.path}" if self.path is not None else ""
        if self.profile is not None:
            return f"Session(ended{file}; its profile: .profile)"
        return f"Session({'recording' if self.wanted else 'paused'}{file}; .finalize() ends it)"

    @property
    def wanted(self) -> bool:
        """Whether what happens now is recorded."""
        return self.active and (self._steps is None or self._steps.recording)

    @property
    def store(self) -> Store:
        """Store that the session writes to."""
        return self._stores[-1]

    def _begin(self) -> None:
        self._stores = [Store(self.options.timeline)]
        """Stores; all but the last one hold set-up."""
        self._began = [time.perf_counter_ns()]
        """Begins of the stores, on the clock of timelines."""
        self._steps = Steps(self) if self.options.chooses_steps else None
        # Of a timeline that is asked for, nothing is left out.
        all_steps = not (self.options.chooses_steps or self.options.timeline)
        self._warm_up = WarmUp(self) if all_steps else None
        self._started, self._clock = provenance.now(), time.monotonic()
        self._waited_ns = provenance.processor_wait_ns()
        self._due = self._clock + min(EARLY_S, self.options.flush_interval)
        self._written: object = None
        self._saving = new_lock()
        self._ending = new_lock()

    def hold(self) -> None:
        """Record nothing until `activate`, and write no file if that never comes."""
        self.held = True
        self.deactivate()

    def deactivate(self) -> None:
        """Record nothing until `activate`; scopes that are open stay known."""
        if self.active and self.profile is None:
            self.active = False
            self._switched()

    def activate(self) -> None:
        """Record again."""
        if not self.active and self.profile is None:
            self.active, self.held = True, False
            self._switched()

    def stop(self) -> None:
        """Record nothing until `activate`; what devices have begun is recorded to its end."""
        if self.active and self.profile is None:
            self.recording.recorder.settle_devices()
        self.deactivate()

    def clear(self) -> None:
        """Forget what was recorded until now; `UsageError` while it goes on."""
        if self.active:
            raise UsageError(
                "what is recorded cannot be forgotten while it goes on",
                hint="Deactivate the session first.",
            )
        # What devices have done for this session goes with it.
        self.recording.recorder.flush_devices(final=False)
        self.recording.recorder.collect()
        with self._saving:
            self._count_no_steps()
            self._begin()

    def write_copy(self, path: Path) -> None:
        """Write the profile as it stands to another file; the session goes on.

        `OutputError` where that cannot be written.
        """
        from tileprof.profile import save

        self.recording.recorder.flush_devices(final=False)
        with self._saving:
            profile = self.profile if self.profile is not None else self.snapshot()
        save(profile, path)

    def _switched(self) -> None:
        if self._steps is not None:
            self._steps.interrupt()
        self.recording.refresh()

    def end_setup(self) -> None:
        """Keep what was recorded until now apart from what follows."""
        recorder = self.recording.recorder
        recorder.split_open(count=True)
        self._stores = [*self._stores, Store(self.options.timeline)]
        self._began = [*self._began, time.perf_counter_ns()]
        self.recording.refresh()
        self.recording.forget_samples()
        # What all this took is nobody's, though it is inside of the optimizer's step.
        recorder.split_open(count=False)

    def finalize(self) -> Profile:
        """End the session, write the file where there is one, and return the profile.

        A second call returns the same profile; in another thread it waits for the first one.
        `OutputError` where the file cannot be written; it is in the folder for temporary files
        then, if that can be written, and the error names it.
        """
        with deferred(), self._ending:
            return self.profile if self.profile is not None else self._conclude()

    def _conclude(self) -> Profile:
        process = os.getpid()
        self._count_no_steps()
        self.stop()
        self.recording.recorder.flush_devices(final=True)
        with self._saving:
            if len(self._stores) > 1 and self._knows_setup:
                self.of_steps = self.snapshot(setup=False)
            self.profile = profile = self.snapshot(final=True)
        # The session is among the open ones until its file is there: a process that is told to end
        # waits for those.
        try:
            # A child that this thread has forked meanwhile goes on in the same code.
            if process == os.getpid():
                self._save_somewhere(profile)
        finally:
            self.recording.leave(self)
        return profile

    def discard(self) -> None:
        """Write no file: there was no program to record."""
        self.path = None

    def snapshot(self, setup: bool = True, final: bool = False) -> Profile:
        """Return the profile as it stands, or its steps only; the session goes on.

        With `final`, code of sampled functions too, which takes its time. Samples of program
        counters do not tell steps from set-up, so they are in the whole only.
        """
        recorder = self.recording.recorder
        builder = TreeBuilder()
        kernel_of: dict[int, int] = {}
        launches: dict[int, list[LaunchTotals]] = {}
        files: list[str] = []
        periods: list[Period] = []
        parts: list[tuple[Numbers, list[int]]] = []
        *setups, store = self._stores
        stores = (*(setups if setup else ()), store)
        native = recorder.events.native_code if recorder.events and self.options.native else None
        calls: set[int] = set()
        multiplied: dict[int, set[str]] = {}
        for each in stores:
            numbers = gather(recorder, each)
            for index, kind in numbers.multiplied.items():
                if index in recorder.kernel_of:
                    multiplied.setdefault(recorder.kernel_of[index], set()).add(kind)
            if native is not None:
                new = numbers.native_calls()
                calls |= new
                if final:
                    native.add_lines(new)
            phase = "" if each is store or not self._knows_setup else SETUP
            kernels_of, made = build_tree(
                builder, numbers, recorder.kernels, recorder.kernel_of, self.options.frames, phase,
                native.frames if native is not None else None,
            )  # fmt: skip
            kernel_of |= kernels_of
            periods.append(Period(numbers, made))
            parts.append((numbers, made))
            for index, totals in enumerate(numbers.launches):
                if totals is not None and index in recorder.kernel_of:
                    launches.setdefault(recorder.kernel_of[index], []).append(totals)
            files += numbers.files()
        if native is not None:
            files += [frame.place.file for call in sorted(calls) for frame in native.frames(call)]
        used = list(dict.fromkeys(kernel_of.values()))
        kernels = tuple(
            add_records(
                with_product(recorder.described(kernel), multiplied.get(kernel, set())),
                launches.get(kernel, []),
            )
            for kernel in used
        )
        # A kernel that ran on several devices at one call path is there for one of them.
        ran_on = [recorder.kernels[kernel].device for kernel in sorted({*used, *launches})]
        files += [kernel.source_file for kernel in kernels]
        files += recorder.events.files if recorder.events is not None else []
        places = {kernel: place for place, kernel in enumerate(used)}
        ctas, left_out = cta_timelines([each.excerpts for each in stores], places)
        pc = recorder.pc_samples(builder, periods, final) if setup else PcSamples()
        files += files_of(pc)
        # That of the steps, where there are any.
        timeline = store.timeline
        tables = Tables(
            kernels=kernels,
            node_kernels={node: used.index(kernel) for node, kernel in kernel_of.items()},
            sources=self.recording.sources.texts(files),
            provenance={
                **self._start,
                **(self.counters.facts() if self.counters is not None else {}),
                **(self.over_time.facts() if self.over_time is not None else {}),
                **self.recording.facts(),
                **devices.facts(ran_on),
                **(timeline.facts() if timeline is not None else {}),
                **left_out,
                "device": provenance.devices(ran_on),
                "start": self._started,
                "end": provenance.now(),
                **({"ended early": self.ended} if self.ended else {}),
                **self._said_of_setup(),
                "duration": f"{time.monotonic() - self._clock:.3f} s",
                **provenance.of_processor_wait(self._waited_ns),
                **(self._steps.provenance(*device_ns(numbers)) if self._steps is not None else {}),
            },
            timeline=timeline.timeline(made) if timeline is not None else Timeline(),
            track_totals=track_totals(parts, recorder.thread_names.all()),
            ctas=ctas,
            devices=devices.described(ran_on),
            device_peaks=devices.peaks(ran_on),
            pc=pc,
            native_modules=native.modules_of(calls) if native is not None else (),
            series=self._series(self._began[0 if setup else -1]),
            launches=recorder.events.launches if recorder.events is not None else (),
        )
        return builder.snapshot(tables)

    def _series(self, begin: int) -> tuple[CounterSeries, ...]:
        """Return what was asked for over time, from a time on."""
        recorder = self.recording.recorder
        counters = recorder.series(begin) if self.over_time else ()
        memory = recorder.memory_series(begin) if self.options.memory else ()
        return (*counters, *memory)

    def flush(self) -> None:
        """Write the file if one is due and there is something new; a failure waits for the end."""
        began = time.monotonic()
        if self.path is None or self.held or began < self._due:
            return
        state = self.recording.recorder.progress()
        if state != self._written:
            with self._saving:
                if self.profile is None:
                    # What could not be written is told at the end, if it is still so.
                    self.recording.recorder.flush_devices(final=False)
                    with suppress(OutputError):
                        self._save(self.snapshot())
                        self._written = state
        now = time.monotonic()
        self._due = now + max(self.options.flush_interval, PATIENCE * (now - began))

    def _save(self, profile: Profile) -> None:
        from tileprof.profile import save

        # A child that did nothing leaves no file.
        if self.path is not None and not self.held and (len(profile) or not self.child):
            save(profile, self.path)

    def _save_somewhere(self, profile: Profile) -> None:
        """Write the file, for temporary files where its own place is gone; that is still raised."""
        from tileprof.profile import save

        try:
            self._save(profile)
        except OutputError as error:
            assert self.path is not None
            try:
                place = Path(tempfile.mkdtemp(prefix="tileprof-"), self.path.name)
                save(profile, place)
            except (OSError, OutputError):
                raise error from None
            self.path = place
            raise OutputError(error.message, hint=f"It is in {place} instead.") from None

    def after_fork(self) -> None:
        """Start anew in a forked child, under a name of its own."""
        self._count_no_steps()
        self._begin()
        self.become_child(self.original)

    def _said_of_setup(self) -> dict[str, str]:
        """Return what provenance tells of a set-up that steps of optimizers have ended."""
        if self._warm_up is None or not self._knows_setup:
            return {}
        count = self.options.warm_up
        return {"set-up": f"{count} step{'s' * (count > 1)} of optimizers, and what was before"}

    @property
    def _knows_setup(self) -> bool:
        """Whether set-up is kept apart from what the last store holds."""
        return self._warm_up.stands_apart if self._warm_up is not None else len(self._stores) > 1

    def _count_no_steps(self) -> None:
        for each in (self._steps, self._warm_up):
            if each is not None:
                each.close()

    def become_child(self, path: Path | None) -> None:
        """Write `STEM.pidP.tprof` where the process that all began with writes `path`."""
        self.child, self.original = True, path
        if path is not None:
            self.path = tagged(path, f"pid{os.getpid()}")
