"""The recording that all open sessions share, from the first `start` to the last `finalize`."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import FrameType
from typing import Any

from tileprof.errors import UsageError
from tileprof.profile.thread_times import OTHERS, Thread, thread_provenance
from tileprof.profiler.endings.termination import Termination
from tileprof.profiler.frameworks import layers
from tileprof.profiler.host import scopes
from tileprof.profiler.host.entries import top
from tileprof.profiler.host.launch_listener import Listener
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.host.sampler import Sampler
from tileprof.profiler.locks import new_lock
from tileprof.profiler.options import (
    EXCLUDED,
    EXCLUDED_COUNTERS,
    EXCLUDED_KINDS,
    EXCLUDED_SAMPLING,
    Options,
    destination,
    parse_options,
)
from tileprof.profiler.session import provenance
from tileprof.profiler.session.instruments import widest
from tileprof.profiler.session.session import Session, SharedRecording
from tileprof.profiler.session.steps import MemorySteps
from tileprof.profiler.tree.sources import Sources
from tileprof.profiler.tree.totals import HostTotals
from tileprof.profiler.worker import Worker
from tileprof.runtime import hooks
from tileprof.runtime.record_options import RecordOptions

FORK_S = 2.0
"""Seconds that a fork waits for a change of recorders that is under way."""
TAKING_S = 0.25
"""Seconds between two readings of the host's events: its rings have room for half of what is
kept."""
HANDOVER_S = 2.0
"""Seconds between two requests that CUPTI hands over its records. It keeps a buffer of 3 MB on the
device and 1.5 MB on the host for 100,000 launches until all their records are handed over, so its
memory grows with this time; files may be written much less often (8 threads of launches on an H200:
once a minute, 67 MB instead of 14 MB)."""

_current: Recording | None = None
_lock = new_lock()


class Recording:
    """One recorder and the sessions that share it."""

    def __init__(self, options: Options) -> None:
        # Here: who imports tileprof and records nothing needs none of it.
        from tileprof.profiler.device import native_events as events

        # The first `numpy.unique` imports this. Here no process forks: the child of a fork in the
        # middle of an import would wait in its own first `unique` for a thread that it lacks.
        import_module("numpy.ma")
        self._native_side = events
        self.recorder = Recorder(options)
        self.recorder.on_waits = self._attend_waits
        self.recorder.adopt()
        self.sources = Sources()
        self.sessions: list[Session] = []
        self._facts: dict[str, str] | None = None
        self._exact = options.clock is not None
        if not self._exact:
            self.recorder.events = events.native_events(
                self.recorder.tree, top, self.recorder.kernels, self.recorder.kernel_of
            )
        self._sampler: Sampler | None = None
        self._memory_steps: MemorySteps | None = None
        """Steps after which memory is looked at, once a session wants that."""
        self._taking = 0.0
        """Time of the next reading of events, in `time.monotonic()`."""
        self._handover = 0.0
        """Time of the next request for records of devices, in `time.monotonic()`."""
        self._worker: Worker | None = None
        self._termination: Termination | None = None

    def join(self, session: Session) -> None:
        """Take a session in."""
        self.sessions.append(session)
        if session.options.layers:
            layers.attach()
        self.recorder.frames = self.recorder.frames or session.options.frames
        self.refresh()
        self.work()

    def leave(self, session: Session) -> None:
        """Let a session go; the last one ends the recording."""
        global _current
        with _lock:
            if session in self.sessions:
                self.sessions.remove(session)
                if session.options.layers:
                    layers.detach()
            if self.sessions:
                self._limit_timeline()
                return
            if _current is self:
                _current = None
                scopes.install(None)
            self.recorder.close()
            if self._memory_steps is not None:
                self._memory_steps.close()
            self.pause_work()
            if self._termination is not None:
                self._termination.restore()

    def refresh(self) -> None:
        """Record for those sessions that are active now, in the detail that they want."""
        with _lock:
            active = [session for session in self.sessions if session.wanted]
            stores = [session.store for session in active]
            recorder = self.recorder
            goes_on = bool(stores) and not recorder.active
            if stores != recorder.active:
                if self._sampler is not None:
                    (self._sampler.finish if recorder.active else self._sampler.skip)()
                recorder.change(stores)
            if recorder.events is not None:
                if stores:
                    full = any(session.options.operations for session in active)
                    backward = any(session.options.backward_ops for session in active)
                    self._limit_timeline()
                    asked = [each.options.sampling for each in active if each.options.sampling]
                    sampling = asked[-1] if asked else None
                    counters = [each.counters for each in active if each.counters is not None]
                    recorder.events.gpu.want_counters(counters[-1] if counters else None)
                    over_time = [each.over_time for each in active if each.over_time is not None]
                    recorder.events.gpu.want_series(over_time[-1] if over_time else None)
                    memory = any(session.options.memory for session in active)
                    if memory and self._memory_steps is None:
                        self._memory_steps = MemorySteps(recorder.events.end_step)
                    recorder.events.begin(
                        recorder.epoch,
                        recorder.frames,
                        full,
                        backward,
                        native=any(session.options.native for session in active),
                        sampling=sampling,
                        memory=memory,
                    )
                else:
                    recorder.events.end()
            wanted = widest(session.options.measured for session in active)
            hooks.listener = Listener(recorder, wanted.mode) if active else None
            hooks.sample_period_ns = wanted.period_ns
            # The newest session that asks for something has it.
            inside = [each.options.inside for each in active if str(each.options.inside)]
            hooks.record_options = inside[-1] if inside else RecordOptions()
            hooks.clock = recorder.clock if active else time.perf_counter_ns
            self._pace()
            if goes_on and self._sampler is not None:
                # What all this took is nobody's.
                self._sampler.skip()

    def _limit_timeline(self) -> None:
        """Keep as many single events as any session wants; one that pauses may still get some."""
        recorder, most = self.recorder, max(session.options.timeline for session in self.sessions)
        if recorder.events is not None and recorder.events.timeline != most:
            # What is there already may have to give way.
            recorder.collect()
            recorder.events.limit_timeline(most)
            recorder.tracing = most > 0
            scopes.trace(recorder.tracing)

    def enter_program(self, frame: FrameType) -> None:
        """Take a frame for the program's bottom, and forget what led to it."""
        self.recorder.set_base(frame)
        if self._sampler is not None:
            self._sampler.skip()
        for node in self.recorder.tree.nodes[1:]:
            if node.kind == "frame":
                node.host = HostTotals()

    def forget_samples(self) -> None:
        """Give no time from here on to where threads were seen before."""
        for state in list(self.recorder.threads.values()):
            state.where = None

    def facts(self) -> dict[str, str]:
        """Return what provenance tells about the process, worked out once."""
        if self._facts is None:
            folder = provenance.script_folder()
            self._facts = {**provenance.of_process(os.getpid()), **provenance.git_state(folder)}
        events = self.recorder.events
        sampling = any(each.options.sampling for each in self.sessions) and not self._exact
        seen = self._native_side.missing(sampling) if events is None else events.facts()
        return {**self._facts, **seen, **self.recorder.lost(), **self._processor_times()}

    def _processor_times(self) -> dict[str, str]:
        """Return what provenance tells of the processor time of threads."""
        if self._sampler is None:
            return {}
        names = self.recorder.thread_names.all()
        times = Counter[Thread]()
        for key, time_ns in self._sampler.processor_times().items():
            times[names.get(key, OTHERS)] += time_ns
        return thread_provenance(times)

    def tick(self) -> None:
        """Look at the threads and flush what is due; called every few milliseconds."""
        if self._sampler is not None and self.recorder.active:
            self._sampler.sample()
            if self._worker is not None:
                self._worker.prompt = self._sampler.alone
        if self.recorder.tracing and time.monotonic() >= self._taking:
            self.recorder.take_traced()
            self._taking = time.monotonic() + TAKING_S
        if self.recorder.events is not None and time.monotonic() >= self._handover:
            self.recorder.flush_devices(final=False)
            self._handover = time.monotonic() + HANDOVER_S
        for session in self.sessions[:]:
            session.flush()

    def pause_work(self) -> None:
        """Stop the helping thread, if there is one."""
        if self._worker is not None:
            self._worker.stop()
            self._worker = None

    def work(self) -> None:
        """Start the helping thread once somebody needs it, and none if the clock is a test's."""
        if self._exact:
            return
        # Without frames too where scopes wait: which one runs is seen from the threads' frames.
        frames = any(session.options.frames for session in self.sessions)
        if self._sampler is None and (frames or self.recorder.waits):
            self._sampler = Sampler(self.recorder)
            # The start may have taken long: an observer was compiled. That is nobody's time.
            self._sampler.skip()
        if self.needs_worker() and self._worker is None:
            self._worker = Worker(self.tick)
            self._worker.start()
        self._pace()

    def _pace(self) -> None:
        """Have the helping thread look often while there is something to look at."""
        if self._worker is not None:
            self._worker.pace(self._sampler is not None and bool(self.recorder.active))

    def _attend_waits(self) -> None:
        with _lock:
            self.work()

    def attend(self, termination: Termination | None) -> None:
        """Take over, or let go of, what sees to signals that end the process."""
        self._termination = termination

    def pause_threads(self) -> set[int]:
        """Stop all threads of ours before a fork; return the signals that are to wait for it."""
        self.pause_work()
        if self._termination is None:
            return set()
        self._termination.pause()
        return self._termination.blocked()

    def start_threads(self) -> None:
        """Go on after a fork."""
        self.work()
        if self._termination is not None:
            self._termination.go_on()

    def needs_worker(self) -> bool:
        """Tell whether there is something to sample, to take over or to flush."""
        flushes = not self._exact and any(session.path for session in self.sessions)
        return self._sampler is not None or flushes or self.recorder.tracing

    def after_fork(self) -> None:
        """Go on in a forked child: its own numbers, its own files, a helping thread of its own."""
        if self._termination is not None:
            self._termination.after_fork()
        self.recorder.after_fork()
        for session in self.sessions:
            session.after_fork()
        self._facts = None
        if self._sampler is not None:
            self._sampler = Sampler(self.recorder)
        self.refresh()
        self.work()


def start(path: str | os.PathLike[str] | None = None, **options: Any) -> Session:
    """Start a session that records the program until `finalize`, and return it.

    `path` names the profile to write, by convention `NAME.tprof`. The file is updated every
    `flush_interval` seconds and completed by `finalize`. Without a path nothing is written;
    `finalize` returns the profile in any case.

    Options (all optional):

    - `context`: what a call path contains. "scopes": your scopes; "python": also Python frames;
      "full" (default): also operations of PyTorch; "native": also C and C++ frames.
    - `instrument`: what to measure inside tile kernels: "off", "scopes" (default), "stages", "ops",
      "sample" or "sample=PERIOD", such as "sample=4us".
    - `inside`: how much of a GPU launch to record, such as {"blocks": 16, "keep": "last"}.
    - `warm_up`: number of steps of PyTorch optimizers that count as set-up (default 0).
    - `duty`: share of the steps to record, 0 to 1, chosen at random; or `every`: record each n-th.
    - `timeline`: True, or the number of single events to keep, of devices and of the host each.
    - `metrics`: hardware counters of each GPU launch: "memory", "tensor", "occupancy", or names of
      CUPTI metrics. "instructions" counts how often each instruction is executed.
    - `pm_sampling`: True, or an interval in µs: sample `metrics` over time instead.
    - `pc_sampling`: True, or a period in cycles: sample at which instructions warps stall, and why.
      `pc_sampling_exact` attributes samples to single launches; kernels then run one by one.
    - `memory`: True: record allocations of PyTorch's CUDA allocator.
    - `backward_ops`: True: record operations inside nodes of backward passes too.
    - `layers`: True: keep the layers of PyTorch's containers apart.
    - `flush_interval`: seconds between updates of the file (default 10).
    - `clock`: a function that returns ns, for tests.

    Raise `UsageError` for an unknown option, a wrong value, or options that exclude each other, and
    `OutputError` for a path that cannot be written.

        session = tileprof.start("run.tprof")
        train()
        profile = session.finalize()
    """
    global _current
    from tileprof.profiler.counters.control import prepare
    from tileprof.profiler.counters.series_control import prepare_series

    parsed = parse_options(**options)
    target = destination(path) if path is not None else None
    with _lock:
        _check_beside(parsed)
        counters = prepare(parsed.counted)
        over_time = prepare_series(parsed.over_time)
        recording = _current or Recording(parsed)
        recording.recorder.check_clock(parsed)
        session = Session(recording, target, parsed, counters, over_time)
        if _current is None:
            _current = recording
            scopes.install(recording.recorder)
        recording.join(session)
    return session


def _check_beside(options: Options) -> None:
    """UsageError for what a session cannot have beside those that are open."""
    for other in open_sessions():
        for one, another in ((options, other.options), (other.options, options)):
            for mine, theirs, excluded in (
                (one.counted, another.sampling, EXCLUDED),
                (one.over_time, another.sampling, EXCLUDED_SAMPLING),
                (one.over_time, another.counted, EXCLUDED_COUNTERS),
            ):
                if mine and theirs:
                    raise UsageError(excluded, hint="Finalize the other session first.")
        kinds = {type(each.counted) for each in (options, other.options) if each.counted}
        if len(kinds) > 1:
            raise UsageError(EXCLUDED_KINDS, hint="Finalize the other session first.")


def open_sessions() -> list[Session]:
    """Return all sessions that are not final."""
    return _current.sessions[:] if _current is not None else []


def finalize_all() -> None:
    """Finalize all sessions; registered to run when the interpreter ends."""
    for session in open_sessions():
        session.finalize()


atexit.register(finalize_all)


class _Fork(threading.local):
    """State of a thread around a fork."""

    locked = False
    mask: Iterable[int] | None = None
    """Signals that it blocked before, where some are to wait."""


_fork = _Fork()


def _before_fork() -> None:
    # With fewer threads in the process, the child cannot inherit a lock of C code that they hold.
    # And no other thread may be changing who records; but what it waits for may be in this one.
    _fork.locked = _lock.acquire(timeout=FORK_S)
    if _current is not None:
        waiting = _current.pause_threads()
        if waiting:
            # Python forgets in the child what comes before that knows that it is one: a child that
            # its parent ends at once would live on.
            _fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, waiting)


def _after_fork_in_parent() -> None:
    # At the very end of the process no thread can be started any more.
    with suppress(RuntimeError):
        if _current is not None:
            _current.start_threads()
    _end_fork()


def _end_fork() -> None:
    if _fork.locked:
        _fork.locked = False
        _lock.release()
    mask, _fork.mask = _fork.mask, None
    if mask is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _after_fork_in_child() -> None:
    if _current is not None:
        _current.after_fork()
        finalize_with_process(_current)
    _end_fork()


def finalize_with_process(recording: SharedRecording) -> None:
    """Finalize at the end of a child of multiprocessing, which `atexit` does not hear of."""
    # It ends with os._exit, but runs its own finalizers.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(recording, _finalize_with_process)


def _finalize_with_process(recording: SharedRecording) -> None:
    from multiprocessing.util import Finalize

    Finalize(None, finalize_all, exitpriority=-100)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
