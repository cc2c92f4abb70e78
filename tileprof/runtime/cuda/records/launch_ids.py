"""Numbers of launches, which identify their records and stand for the listener's token.

In: a function of a kernel with marks, who listens to a launch of it.  Out: the launch's argument,
which blocks take turns in; and the meaning of what comes back under the number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.instrument import SiteTimes
from tileprof.instrument.slots import RECORDING, Slots, recording
from tileprof.once import Guard
from tileprof.runtime.hooks import LateListener
from tileprof.runtime.record_options import RecordOptions

from .budget import Share
from .facts import Observed
from .samples import SampledFunction

if TYPE_CHECKING:
    from tileprof.compiler.cuda.source import LaunchSpec
    from tileprof.instrument.decode.excerpts import Excerpt
    from tileprof.remarks import Remark
    from tileprof.runtime.cuda.binary import CudaBinary

    from .calibration import RecordCost

NOTHING = bytes(RECORDING.itemsize)
"""The argument of a launch that records nothing."""

_GOLDEN = 0.6180339887498949
_MOST_PHASES = 64
"""Sets of blocks that launches take turns in."""


def is_kept(launch: int) -> bool:
    """Return whether an excerpt of a function's launch of that number is made: of the first, in
    case there is no other, of the second, of others ever more seldom, for who begins to listen
    later."""
    return launch & (launch + 1) == 0


@dataclass(slots=True, eq=False)
class Source:
    """One function whose warps write records, and what they mean."""

    binary: CudaBinary
    spec: LaunchSpec
    ns_per_cycle: float | None
    """Nanoseconds per cycle of the device at its highest clock, for launches too short to measure
    it."""
    numbers: NDArray[np.int64] | None = None
    """The kernel's number of each site of this function; None where they are the same."""
    compare: Callable[[], None] | None = None
    """Finds out what the marks cost the kernel; takes long."""
    tags: dict[tuple[LateListener, int, bool], Tag] = field(default_factory=dict)
    observed: Observed = field(default_factory=Observed)
    """Records for those who still listen."""
    cost: RecordCost | None = None
    """Cost of a record in those that were decoded last."""
    _listener: LateListener | None = None
    _launches: int = 0
    """Number of launches while that recording or one beside it went on."""

    def warps(self, options: RecordOptions) -> tuple[int, int]:
        """Return how many warps of a block record, and the bits of their numbers."""
        numbers = options.warps_of(self.spec.consumer_warps or self.spec.warps, self.spec.warps)
        return len(numbers), sum(1 << number for number in numbers)

    def decode(self, slots: Slots, cost: RecordCost) -> SiteTimes:
        """Return the times of sites, under the kernel's numbers, without what records took;
        ProfileFileError where there are none."""
        from tileprof.instrument.decode.warp_times import decode_slots

        self.cost = cost
        times = decode_slots(
            slots,
            self.binary.sites,
            self.binary.states,
            record_cycles=cost.cycles,
            consumer_warps=self.spec.consumer_warps or None,
            ns_per_cycle=self.ns_per_cycle,
        )
        self.observed.add(times, slots)
        return times if self.numbers is None else replace(times, site=self.numbers[times.site])

    def number(self, late: LateListener) -> int:
        """Count a launch: how many were heard of before it."""
        if self._listener is None or (self._listener is not late and self._listener.closed):
            self._listener, self._launches = late, 0
        self._launches += 1
        return self._launches - 1

    def excerpt(self, slots: Slots, device: str, launch: int, issued_ns: int) -> Excerpt | None:
        """Some blocks of a launch, under the kernel's numbers of sites."""
        from tileprof.instrument.decode.excerpts import excerpt_of

        found = excerpt_of(
            slots,
            self.binary.sites,
            self.binary.states,
            consumer_warps=self.spec.consumer_warps or None,
            ns_per_cycle=self.ns_per_cycle,
        )
        if found is None:
            return None
        if self.numbers is not None:
            found = found.numbered(self.numbers)
        function = self.spec.function
        return replace(found, function=function, device=device, launch=launch, issued_ns=issued_ns)

    def remarks(self) -> list[Remark]:
        """Return remarks from the records of the function."""
        return self.observed.remarks(self.binary.sites, self.binary.states, self.ns_per_cycle)


@dataclass(slots=True, eq=False)
class Tag:
    """Launches of one function under one token; `captured`: of graphs, whose replays have it."""

    number: int
    source: Source
    late: LateListener
    token: int
    captured: bool
    issued: int = 0
    """Launches that write records, since the listener was notified."""
    skipped: int = 0
    slots: int = 0
    """Slots of its last launch."""
    awaited: int = 0
    """Slots of launches that were not read yet."""
    count: int = 0
    launch: int = -1
    """Number of the launch whose excerpt is to be kept, if all of its slots are of one launch."""
    issued_ns: int = -1
    """Time of that launch."""
    _parts: list[Slots] = field(default_factory=list)
    """Slots of it that were read."""
    _shown: bool = False
    share: Share = field(default_factory=Share)
    _made: dict[tuple[int, ...], bytes] = field(default_factory=dict)

    def first(self, every: int) -> int:
        """Return the first block of the next launch that records, where one of `every` does;
        launches take turns."""
        phases = min(every, _MOST_PHASES)
        return int(self.count * _GOLDEN % 1 * phases) * every // phases

    def excerpt(self, slots: Slots | None, device: str) -> Excerpt | None:
        """An excerpt of a launch, once all of its slots were read; None: there will be no more."""
        from tileprof.instrument.decode.excerpts import one_replay

        if self._shown or (self.launch < 0 and not self.captured):
            return None
        if slots is not None:
            self._parts.append(slots)
            if self.awaited and not self.captured:
                return None
        if not self._parts:
            return None
        self._shown, parts, self._parts = True, self._parts, []
        if not self.captured:
            return self.source.excerpt(Slots.join(parts), device, self.launch, self.issued_ns)
        # The first replays all record.
        replay, number = one_replay(Slots.join(parts))
        return self.source.excerpt(replay, device, number, -1)

    def argument(
        self, arena: int, capacity: int, every: int, first: int, warps: int, limit: int,
        thinning: int,
    ) -> bytes:  # fmt: skip
        """Return the argument of a launch; fields as in `recording`."""
        key = (arena, every, first, warps, limit)
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= 4 * _MOST_PHASES:
                self._made.clear()
            made = self._made[key] = recording(
                arena, capacity, tag=self.number, every=every, first=first, warps=warps,
                limit=limit, turns=thinning,
            )  # fmt: skip
        return made


class SiteTable:
    """The sites of all variants of a kernel under one numbering; those of the first keep theirs.

    A site's `id` is its place among its kernel's.
    """

    def __init__(self) -> None:
        self.sites: list[ir.Site] = []
        self._numbering = Guard()

    def sources(
        self, binary: CudaBinary, clock_khz: int, compare: Callable[[], None]
    ) -> dict[int, Source]:
        """Return the sources of those launches of a binary that write records, by number.
        `clock_khz`: clock of the device, for launches too short to measure it."""
        numbers = self._take(binary.sites)
        ns_per_cycle = 1e6 / clock_khz if clock_khz else None
        return {
            at: Source(binary, spec, ns_per_cycle, numbers, compare)
            for at, spec in enumerate(binary.launches)
            if spec.records
        }

    def sampled(self, binary: CudaBinary) -> dict[int, SampledFunction]:
        """Return the sampled functions of a binary's launches, by number."""
        numbers = self._take(binary.sites)
        states = list(binary.states)
        if numbers is not None:
            states = [replace(s, site=int(numbers[s.site]) if s.site >= 0 else -1) for s in states]
        return {
            at: SampledFunction(spec.sampled_warps, spec.consumer_warps, self.sites, states)
            for at, spec in enumerate(binary.launches)
            if spec.sampled_warps
        }

    def _take(self, sites: Sequence[ir.Site]) -> NDArray[np.int64] | None:
        """Return the number here of each site; None where they are the same."""
        with self._numbering:
            return self._numbered(sites)

    def _numbered(self, sites: Sequence[ir.Site]) -> NDArray[np.int64] | None:
        known = {_identity(s, self.sites): s.id for s in self.sites}
        numbers: list[int] = []
        for site in sites:
            key = _identity(site, sites)
            if key not in known:
                known[key] = len(self.sites)
                parent = None if site.parent is None else numbers[site.parent]
                self.sites.append(replace(site, id=known[key], parent=parent))
            numbers.append(known[key])
        if numbers == [site.id for site in sites]:
            return None
        return np.array(numbers, np.int64)


def _identity(site: ir.Site, sites: Sequence[ir.Site]) -> tuple[object, ...]:
    """Return the identity of a site: what it is, and what encloses it."""
    above = None if site.parent is None else _identity(sites[site.parent], sites)
    return above, site.kind, site.name, site.location
