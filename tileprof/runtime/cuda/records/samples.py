"""Samples of kernels on GPUs: where warps add up in which states they were, and how it is read.

In: at a launch of a kernel that is sampled, who listens, and under which token.  Out: the launch's
argument; later, from the reader's thread or when a profile is made, the samples since the last time
for the late listener of that token.

Counts lie in device memory and are never set back: the host subtracts what it read before.  So
launches on any streams and replays of graphs add to them whenever they run, nothing waits, and
nothing is lost.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from ctypes import c_uint64
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import TileprofError
from tileprof.instrument.decode import samples
from tileprof.runtime import hooks
from tileprof.runtime.cuda.device import CudaDevice
from tileprof.runtime.cuda.driver import HOST_PORTABLE_MAPPED, STREAM_NON_BLOCKING, DriverFailure
from tileprof.runtime.cuda.waiting import PATIENCE_S, wait_for

from .budget import one_in

PERIOD_NS = 1_000
"""Time from one sample of a warp to the next; the nearest power of two in cycles is taken."""
BLOCKS = 8
"""Blocks of a launch that are sampled, at least."""
BLOCKS_OF_REPLAYS = 2
"""Blocks of a launch in a graph that are sampled, at least."""
PART = 64
"""Share of a large grid's blocks that is sampled, one in this many: enough, and few blocks are
slower."""
ENOUGH = 250_000
"""Samples from which a share is known within 0.2 points."""
SELDOM = 16
"""Interval of sampled launches once there are enough samples."""
_USUAL_KHZ = 1_500_000
_SHIFTS = range(5, 28)
"""Powers of two of cycles: a state's cycles are counted in 32 bits."""
_GOLDEN = 0.6180339887498949
WORDS = 1 << 20
"""8 MB: some thousand kernels at that many call paths."""


@dataclass(slots=True, eq=False)
class SampledFunction:
    """One function that is sampled, and what its counts mean."""

    warps: int
    """Warps that are sampled."""
    consumer_warps: int
    sites: Sequence[ir.Site]
    """Sites of the kernel; more may be added."""
    states: Sequence[ir.State]
    tags: dict[tuple[hooks.LateListener, int, bool], _Tag] = field(default_factory=dict)

    @property
    def words(self) -> int:
        """Number of words of its counts."""
        return samples.counted_words(self.warps, len(self.states))

    def totals(self, counts: samples.Counts) -> samples.SampleTotals:
        """Return the samples of its sites from counts."""
        return samples.SampleTotals.of(counts, self.sites, self.states, self.consumer_warps)


@dataclass(slots=True, eq=False)
class _Tag:
    """Launches of one function under one token; `captured`: of graphs, whose replays have it."""

    function: SampledFunction
    late: hooks.LateListener
    token: int
    captured: bool
    place: int
    """Place of its counts among all words."""
    before: NDArray[np.uint64]
    """Counts at the last reading."""
    sampled: int = 0
    asked: int = 0
    """Launches so far."""
    launches: int = 0
    """Launches since the listener was notified."""
    skipped: int = 0
    fresh: samples.SampleTotals | None = None
    """Totals that were read and not yet passed to the listener."""


class Samples:
    """The samples of one device; `notice` is called when a launch will give some."""

    def __init__(
        self, device: CudaDevice, notice: Callable[[bool], None], words: int = WORDS
    ) -> None:
        self.device = device
        self._notice = notice
        self._words = words
        self._used = 0
        self._free: dict[int, list[tuple[int, NDArray[np.uint64]]]] = {}
        """Places of counts that nobody asks for any more, by size, and what stands there."""
        self._address = 0
        self._stream = 0
        self._host: NDArray[np.uint64] = np.empty(0, np.uint64)
        self._tags: list[_Tag] = []
        self._launches = 0
        self._unread = 0
        self._failure = ""
        self._lock = threading.RLock()
        self._reading = threading.RLock()

    # -- at a launch

    def argument(
        self,
        function: SampledFunction,
        late: hooks.LateListener,
        token: int,
        blocks: int,
        *,
        captured: bool = False,
    ) -> bytes:
        """Return the argument of a launch of so many blocks; `captured`: it goes into a graph."""
        if not self._address and not self._failure:
            self._allocate(late)
        with self._lock:
            tag = function.tags.get((late, token, captured)) or self._tag(
                function, late, token, captured
            )
            self._launches += 1
            if tag.place < 0 or self._failure:
                tag.skipped += 1
                return samples.NOT_SAMPLED
            tag.asked += 1
            if not captured and tag.sampled >= ENOUGH and tag.asked % SELDOM:
                return samples.NOT_SAMPLED
            tag.launches += not captured
            self._unread += 1
            address, number = self._address + 8 * tag.place, self._launches
        self._notice(False)
        chosen = max(BLOCKS_OF_REPLAYS if captured else BLOCKS, blocks // PART)
        every = one_in(blocks, chosen)
        return samples.sampling(
            address,
            shift=self._shift(hooks.sample_period_ns or PERIOD_NS),
            every=every,
            first=int(number * _GOLDEN % 1 * every),
            seed=number & 0xFFFFFFFF,
            turns=captured,
        )

    def _shift(self, period_ns: int) -> int:
        """Return the power of two of cycles nearest to a period."""
        cycles = period_ns * (self.device.clock_khz or _USUAL_KHZ) / 1e6
        return min(max(round(math.log2(max(cycles, 1.0))), _SHIFTS.start), _SHIFTS.stop - 1)

    def _tag(
        self, function: SampledFunction, late: hooks.LateListener, token: int, captured: bool
    ) -> _Tag:
        place, before = self._place(function.words)
        tag = _Tag(function, late, token, captured, place, before)
        function.tags[late, token, captured] = tag
        self._tags.append(tag)
        return tag

    def _place(self, words: int) -> tuple[int, NDArray[np.uint64]]:
        """Room for counts, -1 where there is none, and what stands there."""
        if free := self._free.get(words):
            return free.pop()
        place = self._used if self._used + words <= self._words else -1
        if place >= 0:
            self._used += words
        return place, np.zeros(words, np.uint64)

    def _allocate(self, late: hooks.LateListener) -> None:
        with self._reading:
            if self._address or self._failure:
                return
            driver, size = self.device.driver, 8 * self._words
            try:
                with hooks.unrecorded(), self.device.current(), driver.beside_captures():
                    self._stream = driver.pointer("cuStreamCreate", STREAM_NON_BLOCKING)
                    address = driver.pointer("cuMemAllocAsync", size, self._stream)
                    driver.call("cuMemsetD8Async", address, 0, size, self._stream)
                    place = driver.pointer("cuMemHostAlloc", size, HOST_PORTABLE_MAPPED)
                    driver.call("cuStreamSynchronize", self._stream)
            except DriverFailure as failure:
                self._failure = failure.message
                late.lost(f"{self._name} has no memory for samples: {failure.message}")
                return
            self._host = np.ctypeslib.as_array((c_uint64 * self._words).from_address(place))
            self._address = address

    # -- reading

    @property
    def is_busy(self) -> bool:
        """Return whether there may be something to read soon."""
        if not self._address or self._failure:
            return False
        with self._lock:
            replays = any(t.captured and not t.late.closed for t in self._tags)
        return replays or self._unread > 0

    def read(self) -> None:
        """Take what was counted since the last time."""
        with self._reading:
            if not self._address or self._failure:
                return
            with self._lock:
                tags, used, self._unread = self._tags[:], self._used, 0
            try:
                self._copy(used)
            except TileprofError as error:
                self._failure = error.message
                for late in {t.late for t in tags if not t.late.closed}:
                    late.lost(f"samples of {self._name} could not be read: {error.message}")
                return
            for tag in tags:
                if tag.place >= 0:
                    self._take(tag)

    def _copy(self, used: int) -> None:
        driver = self.device.driver
        with hooks.unrecorded(), self.device.current(), driver.beside_captures():
            place = self._host.ctypes.data
            driver.call("cuMemcpyDtoHAsync_v2", place, self._address, 8 * used, self._stream)
            driver.call("cuStreamSynchronize", self._stream)

    def _take(self, tag: _Tag) -> None:
        function = tag.function
        now = self._host[tag.place : tag.place + function.words].copy()
        counts = samples.read_counts(now - tag.before, function.warps, len(function.states))
        tag.before = now
        if not counts.looks and not counts.seen.any():
            return
        tag.sampled += counts.looks
        more = function.totals(counts)
        tag.fresh = more if tag.fresh is None else tag.fresh + more

    def report(self) -> None:
        """Hand what was read to those who listened, and forget those who are gone."""
        with self._reading:
            with self._lock:
                self._forget()
                tags = self._tags[:]
            for tag in tags:
                self._report(tag)

    def _forget(self) -> None:
        """Drop what nobody asks for; a graph may be replayed for ever, so its place stays taken."""
        gone = [t for t in self._tags if t.late.closed]
        self._tags = [t for t in self._tags if not t.late.closed]
        for old in gone:
            del old.function.tags[old.late, old.token, old.captured]
            if old.place >= 0 and not old.captured:
                self._free.setdefault(old.function.words, []).append((old.place, old.before))

    def collect(self, final: bool) -> None:
        """Read and report; `final`: what is under way too."""
        if final and self.is_busy:
            wait_for(self.device, PATIENCE_S)
        if not self._reading.acquire(timeout=PATIENCE_S):
            return
        try:
            self.read()
            self.report()
        finally:
            self._reading.release()

    def _report(self, tag: _Tag) -> None:
        with self._lock:
            launches, tag.launches = tag.launches, 0
            skipped, tag.skipped = tag.skipped, 0
        fresh, tag.fresh = tag.fresh, None
        if fresh is None and not launches and not skipped:
            return
        measured = hooks.Measured(None, launches, 0, skipped, samples=fresh)
        tag.late.measured(tag.token, measured, replayed=tag.captured)

    @property
    def _name(self) -> str:
        return f"cuda:{self.device.number}"
