"""A look at all Python threads every few milliseconds: where host time goes that no event covers.

A sample stands for the wall time since the last one. Inside a scope only its share counts: the
scope's measured own time is dealt out over the frames below it in proportion (`snapshot`). Outside
of scopes there is nothing to fit, and samples are given exactly the time that passed there.

The main thread counts always, waiting included. Other threads count while they run: one whose
innermost frame is one of the standard library's waiting places (a pool's idle worker, a queue's
reader) is left out, else ten idle workers would drown the thread that works. So is one that runs
nothing of the user's and used no processor since the last sample, such as those with which a
notebook's kernel watches its pipes.
"""

from __future__ import annotations

import gc
import linecache
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import cast

from tileprof.profiler.host.entries import BELOW, NODE, SCOPE, STOP, Entry, ThreadState
from tileprof.profiler.host.recorder import Recorder
from tileprof.profiler.tree.paths import runs_kernels
from tileprof.profiler.tree.sampled_nodes import Trail
from tileprof.profiler.tree.sources import of_user
from tileprof.profiler.tree.tree import Node
from tileprof.runtime import hooks

_STDLIB = os.path.dirname(os.__file__)
_WAITING_MODULES = (
    "threading", "queue", "selectors", "socket", "socketserver", "ssl", "concurrent/futures/_base",
    "concurrent/futures/process", "concurrent/futures/thread", "multiprocessing/connection",
    "multiprocessing/popen_fork", "multiprocessing/queues", "multiprocessing/synchronize",
)  # fmt: skip
_WAITING = {os.path.join(_STDLIB, *f"{name}.py".split("/")) for name in _WAITING_MODULES}
_POOL = os.path.join(_STDLIB, "multiprocessing", "pool.py")
_POOL_HANDLERS = {"_handle_tasks", "_handle_results", "_handle_workers"}
"""Functions of the pool's own threads, which wait in a queue or a pipe that C code reads."""
_AT_REST = 0.02
"""Share of the time up to which a thread that used a processor is at rest."""
_AT_ONCE_NS = 100_000
"""Time of a look in which no other thread can have asked for the GIL."""
_SCHEDULED_OF_THREAD = 6
"""Kind of clock, in Linux: processor time of one thread (`CPUCLOCK_PERTHREAD_MASK | _SCHED`)."""
_POOL_READS = "get()"
"""End of the line in which a worker thread of a pool waits for its next task."""


@contextmanager
def frames_of_threads() -> Iterator[dict[int, FrameType]]:
    """Yield the innermost frame of each thread, by its number, to look at it and its callers.

    Before Python 3.12 a collection may begin wherever an object is made, and is kept from that
    here. One that begins while the interpreter holds its list of threads, and frees a
    `threading.local`, waits for that list: nothing would go on. One that begins in `f_back`, and
    runs a finalizer, lets the other thread return from the frame that is looked at. Python then
    writes into memory that is another frame's: wrong objects in its variables, and SIGSEGV.
    """
    if sys.version_info >= (3, 12) or not gc.isenabled():
        yield sys._current_frames()
        return
    gc.disable()
    try:
        yield sys._current_frames()
    finally:
        gc.enable()


class Sampler:
    """Takes samples for one recorder; `sample` is called from a thread that it does not count."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._main = threading.main_thread().ident
        self._strangers: dict[int, ThreadState] = {}
        """Threads that never had an event."""
        self._claimed: dict[int, int] = {}
        self._trail: Trail | None = None
        self.processor: dict[int, int] = {}
        """Processor time of each thread while it was recorded, in ns, by the thread's number."""
        self._clocks: dict[int, int] = {}
        """Processor time of threads at the last look since they began, in ns, by identity."""
        self._looked = time.monotonic_ns()
        """When that was, in ns."""
        self.alone = False
        """Whether one thread at most was running at the last look, others waiting for work."""
        self._parked: dict[int, list[Entry]] = {}
        """Open scopes whose frames were suspended when the sampler searched for them, keyed by
        thread."""

    def sample(self) -> None:
        """Look at all threads but the calling one, and others that work for the measurement."""
        with self._recorder.no_changes() as active, frames_of_threads() as frames:
            if not active:
                return
            now = self._recorder.clock()
            events = self._recorder.events
            self._claimed = events.claimed() if events is not None else {}
            self._trail = events.trail if events is not None and events.gpu.running else None
            # Our own frame would refer to itself through `frames`, and keep all others alive.
            for own in (threading.get_ident(), *hooks.own_threads):
                frames.pop(own, None)
            used = _processor_times(frames)
            looked = time.monotonic_ns()
            most = (looked - self._looked) * _AT_REST
            idle = {
                ident
                for ident, frame in frames.items()
                if ident != self._main
                and (_waits(frame) or (self._rests(ident, used, most) and not _of_user(frame)))
            }
            self.alone = len(frames) - len(idle) <= 1
            self._add_processor_times(used, now)
            self._looked = looked
            for ident, frame in frames.items():
                self._look(ident, frame, now, ident in idle)
        for known in (self._strangers, self._recorder.threads, self._clocks):
            for ident in [each for each in list(known) if each not in frames]:
                known.pop(ident, None)

    def _find_running(self, state: ThreadState, frame: FrameType, now: int) -> None:
        """Give a thread's clock to the innermost open scope that its frames are in.

        A coroutine that awaits, and a generator between two steps, keep their scopes open, and no
        event tells that something else runs: a look does. The time since the last event or look is
        that of what is found, as with all samples.
        """
        entry = state.current
        parked = self._parked.get(state.ident, [])
        if not parked and not entry[NODE].waits:
            return
        # By the frame that each is open in, the innermost one.
        opened: dict[int, Entry] = {}
        around: Entry = entry
        while around[SCOPE] is None or around[NODE].waits:
            if around[SCOPE] is not None:
                opened.setdefault(id(around[STOP]), around)
            around = around[BELOW]
        for each in parked:
            while each[SCOPE] is None:
                each = each[BELOW]
            if each[NODE].waits:
                opened.setdefault(id(each[STOP]), each)
        found, outer = around, cast(FrameType | None, frame)
        while outer is not None and outer is not around[STOP]:
            if id(outer) in opened:
                found = opened[id(outer)]
                break
            outer = outer.f_back
        self._parked[state.ident] = [each for each in opened.values() if each is not found]
        if state.current is entry:
            found[NODE].host.own_ns += now - state.last
            state.last = now
            state.current = found

    def skip(self) -> None:
        """Count nothing of what has passed until now."""
        now = self._recorder.clock()
        idents = [each.ident for each in threading._enumerate() if each.ident]  # type: ignore[attr-defined]
        self._clocks |= _processor_times(idents)
        self._looked = time.monotonic_ns()
        for state in self._states():
            state.seen = now
            state.credited += state.outside(now)

    def finish(self) -> None:
        """Give what passed since the main thread's last sample to the place of that sample."""
        state = self._recorder.threads.get(self._main or 0)
        if state is not None and state.where is not None and not state.launching:
            elapsed = state.outside(self._recorder.clock())
            state.credited += elapsed
            state.where.host.sampled_ns += elapsed
            state.where.host.add_thread(state.key, 0, elapsed)

    def _states(self) -> list[ThreadState]:
        return [*self._strangers.values(), *self._recorder.threads.values()]

    def _rests(self, ident: int, used: Mapping[int, int], most: float) -> bool:
        """Tell whether a thread used the processor for at most so many ns since the last look."""
        return ident in used and used[ident] - self._clocks.get(ident, used[ident]) <= most

    def _add_processor_times(self, used: Mapping[int, int], now: int) -> None:
        """Add the processor time since the last look; all of it for a thread that is new."""
        for ident, time_now in used.items():
            before = self._clocks.get(ident, 0)
            self._clocks[ident] = time_now
            key = self._state(ident, now).key
            # The system gives the number of a thread that has ended to a new one.
            self.processor[key] = self.processor.get(key, 0) + (
                time_now - before if time_now >= before else time_now
            )

    def processor_times(self) -> dict[int, int]:
        """Return the processor time of each thread until now, in ns, by the thread's number."""
        times = dict(self.processor)
        known = dict(self._clocks)
        for ident, used in _processor_times(known).items():
            state = self._recorder.threads.get(ident) or self._strangers.get(ident)
            if state is not None and used > known[ident]:
                times[state.key] = times.get(state.key, 0) + used - known[ident]
        return times

    def _look(self, ident: int, frame: FrameType, now: int, idle: bool) -> None:
        state = self._state(ident, now)
        if self._recorder.waits:
            self._find_running(state, frame, now)
        if not self._recorder.frames:
            return
        entry, stood = state.current, frame.f_lasti
        before = state.seen, state.credited, state.claimed
        elapsed, state.seen = now - state.seen, now
        if state.launching:
            if self._in_launch(frame):
                # A launch measures itself, and tells when it is over.
                return
            # It failed: nobody told.
            state.launching = False
        outside = entry is state.root
        if outside:
            elapsed = state.outside(now)
            state.credited += elapsed
        elapsed -= self._in_operations(state)
        if idle:
            return
        trail = self._trail if ident == self._main else None
        if elapsed > 0 or trail is not None:
            node = self._node_of(entry, ident, frame)
            if self._went_on(ident, frame, stood, now):
                # Its frames do not belong together. The next sample has the time.
                state.seen, state.credited, state.claimed = before
                return
            if trail is not None:
                trail.add(now, node)
            if elapsed > 0:
                _add(node, state.key, elapsed)
                if outside:
                    state.where = node

    def _went_on(self, ident: int, frame: FrameType, stood: int, now: int) -> bool:
        """Tell whether a thread ran while its frames were looked at.

        This thread may have had to give the GIL away, after 5 ms on a busy machine. Frames that
        returned since show their last lines: a path that never was.
        """
        if frame.f_lasti != stood:
            return True
        if self._recorder.clock() - now < _AT_ONCE_NS:
            return False
        return sys._current_frames().get(ident) is not frame

    def _in_operations(self, state: ThreadState) -> int:
        """Return the time of the thread's operations since the last sample; they have nodes of
        their own."""
        claimed = self._claimed.get(state.ident, 0)
        before, state.claimed = state.claimed, claimed
        return max(claimed - before, 0)

    def _in_launch(self, frame: FrameType) -> bool:
        outer: FrameType | None = frame
        while outer is not None and outer is not self._recorder.paths.base:
            if runs_kernels(outer.f_code):
                return True
            outer = outer.f_back
        return False

    def _state(self, ident: int, now: int) -> ThreadState:
        state = self._recorder.threads.get(ident) or self._strangers.get(ident)
        if state is None:
            recorder = self._recorder
            base = recorder.paths.base if ident == self._main else None
            key = recorder.thread_names.keys([ident])[ident]
            state = ThreadState(ident, recorder.tree.root.twin(), now, base, key)
            self._strangers[ident] = state
        return state

    def _node_of(self, entry: Entry, ident: int, frame: FrameType) -> Node:
        scope: Node = entry[NODE]
        events = self._recorder.events
        if events is not None:
            node = events.sampled(frame, ident, entry if scope.index else None)
            if node is not None:
                return node
        return self._recorder.paths.find_sampled(frame, scope, entry[STOP])


def _waits(frame: FrameType) -> bool:
    """Tell whether a thread's innermost frame is a place where idle threads wait."""
    code = frame.f_code
    if code.co_filename == _POOL:
        if code.co_name in _POOL_HANDLERS:
            return True
        line = linecache.getline(_POOL, frame.f_lineno or 0)
        return code.co_name == "worker" and line.rstrip().endswith(_POOL_READS)
    return code.co_filename in _WAITING


def _of_user(frame: FrameType) -> bool:
    """Tell whether a thread runs a function of the user's, or what one called."""
    outer: FrameType | None = frame
    while outer is not None:
        if of_user(outer.f_code.co_filename):
            return True
        outer = outer.f_back
    return False


def _processor_times(idents: Iterable[int]) -> dict[int, int]:
    """Return the processor time that threads have used, in ns, of those where it is known."""
    found: dict[int, int] = {}
    if not sys.platform.startswith("linux"):
        return found
    for ident in idents:
        thread = threading._active.get(ident)  # type: ignore[attr-defined] # without its lock
        native = getattr(thread, "native_id", None)
        # The kernel's number of that clock, which is refused where the thread is no more.
        with suppress(OSError):
            if native is not None:
                found[ident] = time.clock_gettime_ns(~native << 3 | _SCHEDULED_OF_THREAD)
    return found


def _add(node: Node, key: int, elapsed: int) -> None:
    node.host.samples += 1
    node.host.sampled_ns += elapsed
    node.host.add_thread(key, 1, elapsed)
