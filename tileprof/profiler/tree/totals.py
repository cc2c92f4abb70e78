"""The numbers of one node over one period; plain attributes, because adding to them is hot."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.profile import Metric, Sketch, split_sketches
from tileprof.profile.metrics import combine
from tileprof.runtime.hooks import Launch, Measured

if TYPE_CHECKING:
    from tileprof.instrument import SiteTimes
    from tileprof.instrument.decode.buckets import Histograms
    from tileprof.instrument.decode.mark_costs import MarkCosts
    from tileprof.instrument.decode.samples import SampleTotals

Ints = npt.NDArray[np.int64]
_Layout = tuple[bytes, bytes]


Parts: TypeAlias = dict[int, tuple[int, int]]
"""Parts of a node's numbers by thread or stream: how many events, and their time in ns. Threads
have the numbers of `ThreadNames`."""


def add_part(parts: Parts, track: int, events: int, time: int) -> None:
    """Add to the part of a thread or stream."""
    known = parts.get(track, (0, 0))
    parts[track] = known[0] + events, known[1] + time


@dataclass(slots=True, eq=False)
class HostTotals:
    """Totals of the host at a frame or in a scope."""

    count: int = 0
    own_ns: int = 0
    """Measured: the time between two events belongs to the scope that was entered last."""
    claimed_ns: int = 0
    """Part of `own_ns` in operations and calls that have nodes of their own."""
    samples: int = 0
    sampled_ns: int = 0
    """Wall time that the samples stand for."""
    metrics: dict[str, int | float] | None = None
    """The user's own, given to `scope`."""
    thread: int = 0
    """The one thread of all visits of a scope, or launches of a kernel; -1 for several."""
    visits: dict[int, int] | None = None
    """Visits of the scope by each of several threads."""
    threads: Parts | None = None
    """Parts by thread, measured or sampled."""

    def add_thread(self, key: int, events: int, time: int) -> None:
        """Add to the part of a thread."""
        if self.threads is None:
            self.threads = {}
        add_part(self.threads, key, events, time)

    def enter_thread(self, key: int, before: int) -> None:
        """Note that a thread is not `thread` and visits the scope, after so many other visits."""
        if not self.thread:
            self.thread = key
            return
        if self.visits is None:
            self.visits = {self.thread: before}
            self.thread = -1
        self.visits[key] = self.visits.get(key, 0) + 1

    def visited_by(self) -> dict[int, int]:
        """Return how often each thread visited the scope; 0 where that is not known."""
        return self.visits or ({self.thread: self.count} if self.thread else {})

    def empty(self) -> bool:
        """Tell whether nothing was recorded."""
        return not (self.count or self.own_ns or self.samples)

    def add(self, metric: str, value: int | float) -> None:
        """Add a value of a user's metric."""
        if self.metrics is None:
            self.metrics = {}
        self.metrics[metric] = self.metrics.get(metric, 0) + value

    def take(self, other: HostTotals) -> None:
        """Add the numbers of another period."""
        if other.thread and other.thread != self.thread:
            visits = {**self.visited_by()}
            for key, times in other.visited_by().items():
                visits[key] = visits.get(key, 0) + times
            several = len(visits) > 1
            self.thread = -1 if several else other.thread
            self.visits = visits if several else None
        elif other.visits is not None and self.visits is not None:
            for key, times in list(other.visits.items()):
                self.visits[key] = self.visits.get(key, 0) + times
        self.count += other.count
        self.own_ns += other.own_ns
        self.claimed_ns += other.claimed_ns
        self.samples += other.samples
        self.sampled_ns += other.sampled_ns
        for name, value in (other.metrics or {}).items():
            self.add(name, value)
        for key, part in list((other.threads or {}).items()):
            self.add_thread(key, *part)


@dataclass(slots=True, eq=False)
class DeviceTotals:
    """Totals of a device at a node; `sum` is of times in ns."""

    what: str
    """`kernel`, `memcpy`, `memset`, `sync`, `overhead` or `idle`."""
    count: int = 0
    untimed: int = 0
    """Part of `count` whose time is unknown."""
    sum: int = 0
    slack: int = 0
    """Part of `sum` that was slack, see `tree.metrics`."""
    least: int = 1 << 62
    most: int = -1
    bytes: int = 0
    blocks: int = 0
    sketch: Sketch | None = None
    """Times of one period; those of all periods are in `SketchSums`."""
    counters: dict[Metric, float] = field(default_factory=dict)
    """Hardware counters of launches, where they were asked for."""
    streams: Parts = field(default_factory=dict)
    """Parts by stream, keyed by number of the device << 32 | number of the stream."""

    def count_up(self, metric: Metric, value: float) -> None:
        """Add to a hardware counter."""
        known = self.counters.get(metric)
        self.counters[metric] = value if known is None else combine(metric, known, value)

    def take(self, other: DeviceTotals) -> None:
        """Add the numbers of another period, its sketch left out."""
        self.count += other.count
        self.untimed += other.untimed
        self.sum += other.sum
        self.slack += other.slack
        self.least = min(self.least, other.least)
        self.most = max(self.most, other.most)
        self.bytes += other.bytes
        self.blocks += other.blocks
        for metric, value in other.counters.items():
            self.count_up(metric, value)
        for stream, part in other.streams.items():
            add_part(self.streams, stream, *part)


@dataclass(slots=True, eq=False)
class MemoryTotals:
    """Memory that was allocated at a node; all but counts and `lifetime` in bytes."""

    allocations: int = 0
    allocated: int = 0
    peak: int = 0
    """Alive when its device had the most; of all devices together, each at its own peak."""
    live: int = 0
    """Alive now."""
    lifetime: int = 0
    """From allocation to release in ns, of what was released."""
    growth: int = 0
    """More alive at the last step's end than at the second one's, where it grew again and again."""
    grown_steps: int = 0
    """Number of steps in which that grew."""
    sketch: Sketch | None = None
    """Lifetimes."""

    def take(self, other: MemoryTotals) -> None:
        """Add what was allocated elsewhere, or in another period."""
        self.allocations += other.allocations
        self.allocated += other.allocated
        self.peak += other.peak
        self.live += other.live
        self.lifetime += other.lifetime
        self.growth += other.growth
        self.grown_steps = max(self.grown_steps, other.grown_steps)
        if other.sketch is not None:
            self.sketch = self.sketch.merge(other.sketch) if self.sketch else other.sketch


_MOST_PARTS = 64
"""Histograms that are kept before they are made one."""
_MOST_BUCKETS = 1024
"""Buckets (of 10 bytes) that histograms may have before they are made one, or as many as the one
that was made last."""


class SiteTotals:
    """Times inside a kernel, over all launches whose records nested in the same way."""

    __slots__ = ("count", "histograms", "longest", "marks", "merged", "newer", "parents",
                 "shortest", "sites", "total_ns")  # fmt: skip

    def __init__(self, times: SiteTimes) -> None:
        self.parents: list[int] = times.parents.tolist()
        self.sites: list[int] = times.site.tolist()
        self.count: Ints = times.count.copy()
        self.total_ns: Ints = times.total_ns.copy()
        self.shortest: Ints = times.min_ns.copy()
        self.longest: Ints = times.max_ns.copy()
        self.marks: MarkCosts | None = times.marks
        """None where they are not known of all launches."""
        self.histograms: list[Histograms] = []
        """Times of visits, in several parts; none where they were not told."""
        self.merged = self.newer = 0
        """Buckets of the part that earlier ones were made, and of all parts since."""
        self._add_histograms(_parts(times))

    def copy(self) -> SiteTotals:
        """Return the same numbers, to be added to."""
        made = SiteTotals.__new__(SiteTotals)
        for name in self.__slots__:
            setattr(made, name, getattr(self, name))
        made.histograms = self.histograms[:]
        return made

    def sketches(self) -> list[Sketch]:
        """Return a sketch of the visits' times for each entry."""
        if not self.histograms:
            return []
        whole = self._merged()
        return split_sketches(whole.starts.tolist(), whole.bucket, whole.count)

    def _merged(self) -> Histograms:
        # Here, for it brings all of kernels along, which a program may have none of.
        from tileprof.instrument.decode.buckets import Histograms

        rows = np.arange(len(self.sites))
        return Histograms.merge(self.histograms, [rows] * len(self.histograms), len(self.sites))

    def _add_histograms(self, more: list[Histograms]) -> None:
        self.histograms += more
        self.newer += sum(len(each.bucket) for each in more)
        if len(self.histograms) > _MOST_PARTS or self.newer > max(self.merged, _MOST_BUCKETS):
            self.histograms = [self._merged()]
            self.merged, self.newer = len(self.histograms[0].bucket), 0

    def part(self, begin: int, end: int, whole: int) -> SiteTotals:
        """Return the part from `begin` to `end` of `whole` parts of all visits."""
        made = self.copy()
        made.count = self.count * end // whole - self.count * begin // whole
        made.total_ns = self.total_ns * end // whole - self.total_ns * begin // whole
        if self.marks is not None:
            made.marks = self.marks.part(begin, end, whole)
        return made

    def outermost_ns(self) -> int:
        """Time at sites that no other site encloses."""
        return sum(t for t, p in zip(self.total_ns.tolist(), self.parents) if p < 0)

    def add(
        self,
        count: Ints,
        total_ns: Ints,
        shortest: Ints,
        longest: Ints,
        histograms: list[Histograms],
        marks: MarkCosts | None,
    ) -> None:
        """Add further launches; the arrays have an entry per entry of this one."""
        # An entry without a visit (its end was lost) has 0 for its shortest visit.
        fresh, seen = self.count == 0, count > 0
        both = np.minimum(self.shortest, shortest)
        self.shortest = np.where(fresh, shortest, np.where(seen, both, self.shortest))
        self.longest = np.maximum(self.longest, longest)
        self.count = self.count + count
        self.total_ns = self.total_ns + total_ns
        self._add_histograms(histograms)
        self.marks = None if self.marks is None or marks is None else self.marks + marks


def _parts(times: SiteTimes) -> list[Histograms]:
    return [] if times.histograms is None else [times.histograms]


_RECORDS = ("block_ns", "lost", "read", "skipped", "unread", "warps", "whole_ns")
"""Numbers of what was read of the inside of launches."""


@dataclass(slots=True, eq=False)
class LaunchTotals:
    """Totals of the launches of one kernel variant at one call path; times in ns."""

    count: int = 0
    time: int = 0
    shortest: int = 1 << 62
    longest: int = -1
    flops: int = 0
    bytes: int = 0
    blocks: int = 0
    guarded: int = 0
    wall: int = 0
    block_ns: int = 0
    whole_ns: int = 0
    """Time like `block_ns`, including the time in which records were lost."""
    lost: int = 0
    read: int = 0
    """Launches whose records were read after they were over, `skipped` those that wrote none for
    want of room, `unread` those whose records could not be read any more."""
    skipped: int = 0
    unread: int = 0
    warps: int = 0
    """Number of warps whose records were read."""
    sites: dict[_Layout, SiteTotals] = field(default_factory=dict)
    """Totals of sites, keyed by (parents, sites) as the launches reported them."""
    samples: dict[tuple[str, ...], SampleTotals] = field(default_factory=dict)
    """Totals of samples, keyed by roles, because variants of a kernel may differ in them."""

    def add(self, launch: Launch) -> None:
        """Add one launch."""
        self.count += 1
        time = launch.time_ns
        if time >= 0:
            self.time += time
            if time < self.shortest:
                self.shortest = time
            if time > self.longest:
                self.longest = time
        self.flops += launch.flops
        self.bytes += launch.bytes
        self.blocks += launch.blocks
        self.guarded += launch.guarded
        if launch.sites is not None:
            self._add_sites(launch.sites)
        self._add_samples(launch.samples)

    def add_measured(self, measured: Measured) -> None:
        """Add what was read of the inside of launches that are counted already."""
        self.read += measured.launches
        self.skipped += measured.skipped
        self.unread += measured.unread
        self.warps += measured.warps
        if measured.sites is not None:
            self._add_sites(measured.sites)
        self._add_samples(measured.samples)

    def _add_samples(self, samples: SampleTotals | None) -> None:
        if samples is not None:
            known = self.samples.get(samples.roles)
            self.samples[samples.roles] = samples if known is None else known + samples

    def _add_sites(self, times: SiteTimes) -> None:
        self.block_ns += times.block_ns
        self.whole_ns += times.whole_ns
        self.lost += times.lost
        layout = (times.parents.tobytes(), times.site.tobytes())
        known = self.sites.get(layout)
        if known is None:
            self.sites[layout] = SiteTotals(times)
        else:
            known.add(
                times.count, times.total_ns, times.min_ns, times.max_ns, _parts(times), times.marks
            )  # fmt: skip

    def part(self, begin: int, end: int, whole: int) -> LaunchTotals:
        """Return the part from `begin` to `end` of `whole` parts of what was read of the inside of
        launches."""
        made = LaunchTotals()
        for name in _RECORDS:
            value = getattr(self, name)
            setattr(made, name, value * end // whole - value * begin // whole)
        for layout, sites in self.sites.items():
            made.sites[layout] = sites.part(begin, end, whole)
        for roles, samples in self.samples.items():
            made.samples[roles] = samples.part(begin, end, whole)
        return made

    @property
    def has_inside(self) -> bool:
        """Whether something is known of the inside of launches."""
        return bool(self.sites or self.samples)

    def without_records(self) -> LaunchTotals:
        """Return the same without what was read of the inside of launches."""
        made = LaunchTotals()
        made.take(self)
        made.sites, made.samples = {}, {}
        for name in _RECORDS:
            setattr(made, name, 0)
        return made

    def take(self, other: LaunchTotals) -> None:
        """Add the numbers of another period."""
        for name in ("count", "time", "flops", "bytes", "blocks", "guarded", "wall", *_RECORDS):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.shortest = min(self.shortest, other.shortest)
        self.longest = max(self.longest, other.longest)
        for samples in list(other.samples.values()):
            self._add_samples(samples)
        for layout, sites in list(other.sites.items()):
            if (known := self.sites.get(layout)) is None:
                self.sites[layout] = sites.copy()
            else:
                known.add(
                    sites.count, sites.total_ns, sites.shortest, sites.longest, sites.histograms,
                    sites.marks,
                )  # fmt: skip
