"""The one recorder that all sessions share: threads, open scopes, the clock, who listens.

Each thread has a clock hand: the time between two events belongs to the scope entered last, so that
own times add up to the wall time of the outermost scope, whatever overlaps. While a scope's frame
is suspended (a coroutine that awaits, a generator between two steps) no event says what runs; looks
of the sampler then move the hand. Which scope encloses a piece of code is a different question,
answered by a context variable: a `with` block sees the scope around it, asyncio tasks do not see
each other's, a task sees the scopes that were open where it was made, a thread starts with none,
and a scope that a suspended generator has left open is passed over (`enclosing`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from types import FrameType
from typing import TYPE_CHECKING

from tileprof.errors import UsageError
from tileprof.profile import CounterSeries, KernelInfo, PcSamples, TreeBuilder
from tileprof.profiler.device.timeline import Part, TimelineStore
from tileprof.profiler.host.entries import (
    NOBODY,
    NODE,
    STOP,
    THREAD,
    Entry,
    ThreadNames,
    ThreadState,
    top,
)
from tileprof.profiler.host.late_measurements import Late, add_late, site_infos
from tileprof.profiler.host.store import Store
from tileprof.profiler.locks import new_lock
from tileprof.profiler.options import Options
from tileprof.profiler.pcs.kernel_samples import Period, add_pc_samples
from tileprof.profiler.tree.paths import Paths
from tileprof.profiler.tree.totals import HostTotals, LaunchTotals, MemoryTotals
from tileprof.profiler.tree.tree import Tree
from tileprof.runtime import hooks
from tileprof.runtime.hooks import KernelDescription, LateDescription, LaunchedKernel, Measured

if TYPE_CHECKING:
    from tileprof.profiler.device.native_events import Events

_NOTHING = HostTotals()
"""Numbers of a scope that is new since a pause began; nobody adds to them."""


class Recorder:
    """One recording; sessions come and go."""

    def __init__(self, options: Options) -> None:
        self.clock: Callable[[], int] = options.clock or time.perf_counter_ns
        self.frames = options.frames
        self.tree = Tree()
        self.paths = Paths(self.tree)
        self.threads: dict[int, ThreadState] = {}
        self.kernels: list[KernelInfo] = []
        self.kernel_of: dict[int, int] = {}
        """Index of a kernel's node to its place in `kernels`."""
        self._variants: dict[Hashable, int] = {}
        self._later: dict[int, Callable[[], LateDescription]] = {}
        """Functions that describe what is known only after launches, keyed by place in
        `kernels`."""
        self.late = Late(self, 0)
        """Takes what is known of launches later; another one in each epoch."""
        self._lost: dict[str, int] = {}
        self._news = 0
        """Counts what was measured later."""
        self.active: list[Store] = []
        self._pause = Pause(self.tree)
        self.device_ns = 0
        """Time of launches on their devices in ns, as far as it was known when they ended."""
        self.epoch = 0
        """Counts the changes of who listens; the native side tells it with what it has seen."""
        self._listened: dict[int, list[Store]] = {}
        self.tracing = False
        """Whether scopes go on a timeline."""
        self.events: Events | None = None
        """Events of the native recorder, where there is one."""
        self.waits = False
        """Whether there are scopes that stay open while others run: coroutines', generators'."""
        self.on_waits: Callable[[], None] = lambda: None
        """Called once there is one."""
        self._local = threading.local()
        self.thread_names = ThreadNames()
        self._lock = new_lock()
        self.closed = False
        """Whether what still arrives goes nowhere."""

    def adopt(self, above: Entry = NOBODY) -> Entry:
        """Return the root entry of the calling thread, and let this context start from it.

        `above` is the entry of another thread, whose context was copied, as `asyncio.to_thread`
        does: this thread is then inside of its scope.
        """
        if self.closed:
            return NOBODY
        state: ThreadState | None = getattr(self._local, "state", None)
        if state is None:
            ident = threading.get_ident()
            main = ident == threading.main_thread().ident
            base = self.paths.base if main else None
            key = self.thread_names.enter()
            state = ThreadState(ident, self.tree.root.twin(), self.clock(), base, key)
            self._local.state = self.threads[ident] = state
        entry = state.root
        if above[NODE].index and self.threads.get(above[THREAD].ident) is above[THREAD]:
            entry = [state.root, None, above[NODE], state, None, state, 0]
        top.set(entry)
        return entry

    def begin_waits(self) -> None:
        """Note that there is a scope that stays open while others run in its thread."""
        self.waits = True
        self.on_waits()

    def kernel_index(self, kernel: LaunchedKernel) -> int:
        """Return the place in `kernels` of a variant, which is asked to describe itself once."""
        with self._lock:
            if kernel.key not in self._variants:
                described = kernel.info()
                self._variants[kernel.key] = len(self.kernels)
                if described.later is not None:
                    self._later[len(self.kernels)] = described.later
                self.kernels.append(converted(described))
            return self._variants[kernel.key]

    def described(self, place: int) -> KernelInfo:
        """Return a kernel with all that is known of it by now."""
        later = self._later.get(place)
        return self.kernels[place] if later is None else add_late(self.kernels[place], later())

    def set_base(self, frame: FrameType | None) -> None:
        """Name the frame that runs the user's program, in the thread that calls this."""
        self.paths.base = frame
        self.adopt()[STOP] = frame
        if self.events is not None:
            self.events.set_base(frame)

    def check_clock(self, options: Options) -> None:
        """Raise `UsageError` where a further session wants another clock."""
        if options.clock is not None and options.clock is not self.clock:
            raise UsageError(
                "a session is running on another clock",
                hint="Sessions share one recorder; finalize the other one first.",
            )

    @contextmanager
    def no_changes(self) -> Iterator[bool]:
        """Keep who listens as it is, and yield whether somebody does.

        A sample that sees threads where they are after the beginning of a pause must not count for
        those who listened before it.
        """
        with self._lock:
            yield bool(self.active)

    def change(self, active: list[Store]) -> None:
        """Record for these from here on; hand out what was recorded before, if it is no pause."""
        with self._lock:
            self._settle()
            before, self.active = self.active, active
            if before and not active:
                self._pause.begin(before)
                return
            if active and self._pause.stores == active:
                self._pause.end()
                return
            kept = None
            if self._pause.stores:
                before, kept = self._pause.release()
            self._take_events(kept)
            self.epoch += 1
            self._listened[self.epoch] = active
            self.late = Late(self, self.epoch)
            self._hand_out(before, kept)

    def _hand_out(self, stores: list[Store], kept: dict[int, HostTotals] | None) -> None:
        """Give stores what the tree holds; of scopes `kept`, if there was a pause until now."""
        for node in self.tree.nodes[1:]:
            host, launches = node.host, node.launches
            if kept is not None and node.kind == "scope":
                # What is in the tree was counted in the pause, or since its end: it is nobody's.
                node.host, host = HostTotals(), kept.get(node.index, _NOTHING)
            if host.empty() and (launches is None or not launches.count):
                continue
            node.host = HostTotals()
            if launches is not None:
                node.launches = LaunchTotals()
            for store in stores:
                store.take(node.index, host, launches)

    def split_open(self, count: bool) -> None:
        """Count what is open in the calling thread until now; without `count`, at nothing."""
        if self.events is not None:
            self.events.split_open(count)
        state: ThreadState | None = getattr(self._local, "state", None)
        if state is not None and not count:
            state.last = self.clock()

    def settle_devices(self) -> None:
        """Wait for work of devices that would be cut off otherwise."""
        if self.events is not None:
            self.events.gpu.settle()

    def flush_devices(self, final: bool) -> None:
        """Have records of devices handed over; `final`: of all work, waiting for it."""
        if self.events is not None:
            self.events.flush(final)
        # After it: with `final` it has waited for the kernels.
        hooks.collect(final)

    def take_measured(self, epoch: int, index: int, measured: Measured, *, replayed: bool) -> None:
        """Add what launches wrote about their inside, for those who listened then; for `replayed`
        ones, which may have come at any time, for those who listen now."""
        with self._lock:
            then = self._listened.get(epoch, [])
            now = self.active or self._pause.stores if replayed else []
            for store in now or then:
                store.take_measured(index, measured)
                if measured.excerpt is not None and index in self.kernel_of:
                    store.excerpts.take(self.kernel_of[index], measured.excerpt)
            self._news += 1

    def take_lost(self, what: str, count: int) -> None:
        """Note that so many of something were lost; 0: the words say all."""
        with self._lock:
            self._lost[what] = self._lost.get(what, 0) + count

    def lost(self) -> dict[str, str]:
        """Return what provenance tells of records that were lost."""
        lost = [f"{count:,} {what}" if count else what for what, count in [*self._lost.items()]]
        return {"lost records": "; ".join(lost)} if lost else {}

    def collect(self) -> None:
        """Add what the native recorder has counted since the last time; hand out before a pause."""
        with self._lock:
            if not self._pause.stores:
                self._take_events(None)
                return
            self._settle()
            stores, kept = self._pause.release()
            self._take_events(kept)
            self._hand_out(stores, kept)

    def _take_events(self, kept: dict[int, HostTotals] | None) -> None:
        """Add to the nodes; what devices did goes to those who listened at the launch.

        What the host did in scopes is added to `kept`, if there was a pause until now.
        """
        if self.events is None:
            return
        given: dict[int, Store] = {}
        for epoch, node, totals in self.events.collect(self.thread_names.keys, kept):
            for store in self._listened.get(epoch, ()):
                store.take_device(node.index, totals)
                given[id(store)] = store
        for store in given.values():
            store.sketches.settle()
        for part in self.events.traced():
            self._hand_out_events(part)

    def take_traced(self) -> None:
        """Hand out single events of the host, before there are too many of them."""
        with self._lock:
            if self.events is not None:
                self._hand_out_events(self.events.traced_host())

    def pc_samples(self, builder: TreeBuilder, periods: list[Period], final: bool) -> PcSamples:
        """Add samples of program counters to a tree; return them, with their code if `final`."""
        with self._lock:
            held = self.events.pc_samples() if self.events is not None else None
            if self.events is None or held is None:
                return PcSamples()
            functions_of = self.events.functions_of
        held = add_pc_samples(builder, held, periods, functions_of)
        return self.events.with_code(held) if final else held

    def series(self, begin: int) -> tuple[CounterSeries, ...]:
        """Return hardware counters over time from a time on, in ns on the clock of timelines."""
        return self.events.gpu.over_time.series(begin) if self.events is not None else ()

    def memory_series(self, begin: int) -> tuple[CounterSeries, ...]:
        """Return devices' memory over time from a time on, in ns on the clock of timelines."""
        return self.events.memory_series(begin) if self.events is not None else ()

    def memory_of(self, store: Store) -> dict[int, MemoryTotals]:
        """Return what was allocated while a store's session listened, by index of the node."""
        found: dict[int, MemoryTotals] = {}
        allocated = self.events.memory() if self.events is not None else {}
        for epoch, nodes in allocated.items():
            if store in self._listened.get(epoch, ()):
                for index, totals in nodes.items():
                    found.setdefault(index, MemoryTotals()).take(totals)
        return found

    def _hand_out_events(self, part: Part) -> None:
        stores: dict[int, TimelineStore] = {}
        names = self.thread_names.names()
        for epoch, rows in part.by_epoch():
            for store in self._listened.get(epoch, ()):
                if store.timeline is not None:
                    store.timeline.take(rows, names)
                    stores[id(store)] = store.timeline
        for timeline in stores.values():
            timeline.add_overwritten(part.rows, part.overwritten)

    def _settle(self) -> None:
        now = self.clock()
        for state in list(self.threads.values()):
            state.current[NODE].host.own_ns += now - state.last
            state.last = now

    def running(self) -> dict[int, int]:
        """Return the time since the last event by index of the scope that it belongs to."""
        now = self.clock()
        found: dict[int, int] = {}
        for state in list(self.threads.values()):
            index = state.current[NODE].index
            found[index] = found.get(index, 0) + now - state.last
        return found

    def close(self) -> None:
        """Cut off what still refers to this recorder; what still arrives goes nowhere."""
        self.closed = True
        for state in list(self.threads.values()):
            state.ident = -1
        self.paths.base = None
        if self.events is not None:
            self.events.close()
            self.events.set_base(None)

    def after_fork(self) -> None:
        """Go on in a forked child: one thread, and nothing of what the parent recorded."""
        if self.events is not None:
            self.events.after_fork()
        state: ThreadState | None = getattr(self._local, "state", None)
        self.threads = {threading.get_ident(): state} if state is not None else {}
        self.change([])

    def progress(self) -> tuple[object, ...]:
        """Return something that changes whenever there is news for a file."""
        nodes = self.tree.nodes[:]
        launches = sum(node.launches.count for node in nodes if node.launches is not None)
        events = sum(node.host.count + node.host.samples for node in nodes)
        open_since = [s.last for s in list(self.threads.values()) if s.current is not s.root]
        return len(nodes), launches, events, open_since, self._news


def converted(described: KernelDescription) -> KernelInfo:
    """Return what the runtime says about a kernel as the profile keeps it."""
    held = {each.name: getattr(described, each.name) for each in fields(KernelInfo)}
    sites, attributes = site_infos(described.sites), dict(described.attributes)
    return KernelInfo(**held | {"sites": sites, "attributes": attributes})


class Pause:
    """Owner of the tree's numbers while nobody records.

    Handing out the numbers of all nodes takes a microsecond each, so the cost of a pause would grow
    with the tree. While nobody records, they stay in it until somebody asks for them; scopes, which
    go on to count, count into spare numbers.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._spare: list[HostTotals] = []
        """Totals by place in `tree.scopes`: in a pause those kept, else some that nobody reads."""
        self.stores: list[Store] = []

    def begin(self, stores: list[Store]) -> None:
        """Keep what is in the tree for these."""
        self.stores = stores
        self._swap()

    def end(self) -> None:
        """Put everything as it was: the same stores go on."""
        self._swap()
        self.stores = []

    def release(self) -> tuple[list[Store], dict[int, HostTotals]]:
        """End the pause for somebody else; return whose the numbers of scopes are, and those
        numbers by index of the node.

        They do not go back into the tree, where other threads would add to them.
        """
        kept = {node.index: totals for node, totals in zip(self._tree.scopes[:], self._spare)}
        stores, self.stores, self._spare = self.stores, [], []
        return stores, kept

    def _swap(self) -> None:
        scopes, spare = self._tree.scopes[:], self._spare
        spare += [HostTotals() for _ in range(len(scopes) - len(spare))]
        for at, node in enumerate(scopes):
            node.host, spare[at] = spare[at], node.host
