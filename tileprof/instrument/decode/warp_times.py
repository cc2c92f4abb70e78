"""Times of each site from the slots of warps, without a Python step per record.

A mark says a state: the innermost site, and how many sites of its path go on from before.  So a
visit at depth d begins where a state reaches deeper than d and keeps at most d sites, and ends at
the next mark that keeps at most d, or where the warp ends.  Most visits end at the very next mark
and need no search.

Times are those between the clocks that marks read, less what each mark in between took itself
(`record_cycles`).  Cycles become ns by the two clocks in the heads of all slots of a launch.

Where records are missing, visits that were under way there are counted, with the time that is known
of them; only whole ones are among the shortest, the longest and the quantiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.errors import ProfileFileError
from tileprof.instrument.slots import Slots
from tileprof.instrument.state_table import States

from .blocks import Groups
from .buckets import PLACES, Histograms, place_of
from .clocks import cycles_of, launch_clocks
from .mark_costs import MarkCosts
from .times import Floats, Ints, SiteTimes, depth_first

Flags = NDArray[np.bool_]

PIECE = 1 << 15
"""Records that are worked through at once: their arrays fit a cache, and are small enough for the
allocator to keep their memory."""


def decode_slots(
    slots: Slots,
    sites: Sequence[ir.Site],
    states: Sequence[ir.State],
    *,
    record_cycles: float = 0.0,
    consumer_warps: int | None = None,
    ns_per_cycle: float | None = None,
) -> SiteTimes:
    """Return times by site of one launch or several of a kernel, from what some of its warps wrote.

    An entry has the number of its site.  `record_cycles`: what a mark takes; `consumer_warps`: how
    many warps of a block, from the first, are no producers (None: all); `ns_per_cycle`: taken where
    launches are too short to measure it.  Warps whose clocks make no sense are lost.
    ProfileFileError where records name states that the kernel does not have.
    """
    table = States.of(sites, states)
    clocks = launch_clocks(slots, ns_per_cycle)
    totals = _Totals(len(slots), len(states), len(sites))
    starts = slots.starts
    for first, last in _pieces(starts):
        part = Slots(slots.heads[first:last], slots.records[starts[first] : starts[last]])
        scale = clocks.ns_per_cycle[first:last]
        cycles, good = cycles_of(part)
        numbers = np.flatnonzero(good)
        if len(numbers) < len(part):
            totals.lost += int(part.heads["kept"][~good].sum())
            part, scale = part.take(numbers), scale[good]
            cycles, _ = cycles_of(part)
        _Piece(part, table, cycles, scale, record_cycles).add_to(totals, first + numbers)
    totals.lost += slots.lost
    return totals.collect(table, Groups.of(slots.heads, consumer_warps), clocks.error)


def _pieces(starts: Ints) -> Iterator[tuple[int, int]]:
    """Yield first and last of runs of slots with about `PIECE` records."""
    first, count = 0, len(starts) - 1
    while first < count:
        last = int(np.searchsorted(starts, starts[first] + PIECE, side="right")) - 1
        last = min(max(last, first + 1), count)
        yield first, last
        first = last


class _Totals:
    """Sums over the pieces so far."""

    def __init__(self, slots: int, states: int, sites: int) -> None:
        self.time = np.zeros((slots, states))
        """(slots, states): time of a warp in a state itself, in ns."""
        self.known_ns = np.zeros(slots)
        """(slots): time of a warp while its records were kept, in ns."""
        self.whole_ns = 0.0
        """Time of all warps, from begin to end, in ns."""
        self.marks = np.zeros((2, states))
        """(2, states): number of marks in each state, and the ns that they took."""
        # One more than there are sites, for marks with which no visit ends.
        self.least = np.full(sites + 1, np.inf)
        self.most = np.full(sites + 1, -np.inf)
        self.places = np.zeros((sites + 1) * PLACES, np.int64)
        """(sites * places): counts of whole visits."""
        self.partial = np.zeros(sites, np.int64)
        """Counts of other visits."""
        self.waiting: list[tuple[Ints, Floats]] = []
        """Few visits at once, which are added together in the end."""
        self.lost = 0

    def add(self, site: Ints, ns: Floats) -> None:
        """Add some whole visits: positions of sites, and times in ns."""
        # Few of many visits are new extremes, and comparing first is faster.
        low = np.flatnonzero(ns < self.least.take(site))
        np.minimum.at(self.least, site[low], ns[low])
        high = np.flatnonzero(ns > self.most.take(site))
        np.maximum.at(self.most, site[high], ns[high])
        keys = place_of(ns)
        keys += site * PLACES
        np.add.at(self.places, keys, 1)

    def collect(self, table: States, groups: Groups, clock_error: float) -> SiteTimes:
        """Return the entries of all sites that were visited, in the order of the tree."""
        if self.waiting:
            self.add(*map(np.concatenate, zip(*self.waiting)))
        places = self.places.reshape(-1, PLACES)
        visits = places.sum(1)[:-1] + self.partial
        ordered = depth_first(dict(enumerate(table.parents.tolist())), -1)
        shown = np.array([at for at in ordered if visits[at]], np.int64)
        place = np.full(len(visits) + 1, -1)
        place[shown] = np.arange(len(shown))
        time = np.maximum(self.time @ table.inside, 0)[:, shown]
        count, total = visits[shown], time.sum(0)
        # Of visits that are all cut off there is only what is known of them.
        partial, mean = np.isinf(self.least[shown]), total / count
        there = time > 0
        blocks, warps = groups.of_blocks(time, there)
        seen = (warps > 0).sum(0)
        keys = np.flatnonzero(places[shown])
        marks, mark_ns = (self.marks @ table.inside)[:, shown]
        return SiteTimes(
            place[table.parents[shown]],
            table.ids[shown],
            count,
            _whole(total),
            _whole(np.where(partial, mean, self.least[shown])),
            _whole(np.where(partial, mean, self.most[shown])),
            seen,
            _whole(np.where(seen, np.where(warps > 0, blocks, np.inf).min(0, initial=np.inf), 0)),
            _whole(blocks.max(0, initial=0)),
            block_ns=round(float(self.known_ns.sum())),
            lost=self.lost,
            unmatched=int(self.partial.sum()),
            histograms=Histograms.of_places(keys, places[shown].ravel()[keys], len(shown)),
            spread=groups.spread(time, there, blocks, warps),
            clock_error=clock_error,
            marks=MarkCosts(_whole(marks), mark_ns),
            whole_ns=round(self.whole_ns),
        )


def _whole(values: Floats) -> Ints:
    return np.rint(np.maximum(values, 0)).astype(np.int64)


class _Piece:
    """Records of some slots."""

    def __init__(
        self, slots: Slots, table: States, cycles: Floats, scale: Floats, record_cycles: float
    ) -> None:
        heads, starts = slots.heads, slots.starts
        self.table, self.cycles, self.record_cycles = table, cycles, record_cycles
        self.kept = np.diff(starts)
        self.there = np.flatnonzero(self.kept)
        self.first, self.last = starts[self.there], starts[self.there + 1] - 1
        missing = slots.lacks[self.there]
        goes_round = slots.goes_round[self.there]
        self.no_begin = self.first[missing & goes_round]
        self.no_end = self.last[missing & ~goes_round]
        state: NDArray[np.uint32] = slots.records["state"]
        self.state = state.astype(np.int64)
        self._check_states()
        length = slots.length
        alike = len(scale) and (scale == scale[0]).all()
        self.scale = scale[:1] if alike else np.repeat(scale, self.kept)
        """ns per cycle of each record, or one for all."""
        self._set_own(length[self.there])
        self.known_ns = (length - record_cycles * heads["wanted"]) * scale
        self.whole_ns = float(self.known_ns.sum())
        if missing.any():
            self._set_known(goes_round & missing)

    def _check_states(self) -> None:
        states = len(self.table.fresh)
        if (found := int(self.state.max(initial=-1))) >= states:
            raise ProfileFileError(
                f"a record names state {found:,} of a kernel that has {states:,}",
                hint="Read records with the sites and states of the kernel that wrote them.",
            )

    def _set_own(self, length: Floats) -> None:
        self.own = np.empty_like(self.cycles)
        """(records): time in ns until the next record, as far as it is known."""
        np.subtract(self.cycles[1:], self.cycles[:-1], out=self.own[:-1])
        self.own[self.last] = length - self.cycles[self.last]
        self.own -= self.record_cycles
        self.own[self.no_end] = 0
        self.own *= self.scale

    def _set_known(self, no_begin: Flags) -> None:
        since = np.where(no_begin, self.first, self.last)
        marks = np.where(no_begin, 0, self.last - self.first)
        whole = self._between(since, self.last)
        before = (self.cycles[self.last] - self.record_cycles * marks) * self._scale_at(self.last)
        self.known_ns[self.there] = np.where(no_begin, whole, before + self.own[self.last])

    def _between(self, begin: Ints, last: Ints) -> Floats:
        """Return the time in ns from some marks to the ends of what others began."""
        cycles = self.cycles[last] - self.cycles[begin] - self.record_cycles * (last - begin)
        return np.asarray(cycles * self._scale_at(begin) + self.own[last])

    def _scale_at(self, records: Ints) -> Floats:
        return self.scale if len(self.scale) == 1 else self.scale[records]

    def add_to(self, totals: _Totals, slots: Ints) -> None:
        """Add the times of the piece, whose slots have these numbers among all."""
        totals.known_ns[slots] = self.known_ns
        totals.whole_ns += self.whole_ns
        if not len(self.state):
            return
        states = len(self.table.fresh)
        key = np.repeat(np.arange(len(slots)) * states, self.kept)
        key += self.state
        own = np.bincount(key, self.own, minlength=len(slots) * states)
        totals.time[slots] = own.reshape(-1, states)
        totals.marks += self._marks(states)
        self._add_visits(totals)

    def _marks(self, states: int) -> Floats:
        """Return how many marks there are in each state, and the ns that they took."""
        count = np.bincount(self.state, minlength=states)
        alike = len(self.scale) == 1
        cycles = count * self.scale if alike else np.bincount(self.state, self.scale, states)
        return np.stack([count, cycles * self.record_cycles])

    def _add_visits(self, totals: _Totals) -> None:
        table = self.table
        fresh, deep = table.fresh.take(self.state), table.deep.take(self.state)
        older = fresh[self.no_begin]
        fresh[self.first] = 0
        # Most visits end at the next mark: those of the innermost site, where that leaves the site.
        leaves = fresh < deep
        leaves[:-1] &= fresh[1:] < deep[:-1]
        leaves[self.no_end] = False
        leaves[self.no_begin] = False
        site = table.innermost.take(self.state)
        site[np.flatnonzero(~leaves)] = len(table.ids)
        totals.add(site, self.own)
        more = np.flatnonzero(deep - fresh > leaves)
        first, last = fresh[more], deep[more] - leaves[more]
        for level in range(table.depth):
            begin = more[(first <= level) & (level < last)]
            if len(begin):
                ends = np.flatnonzero(fresh <= level)
                self._add_level(totals, level, begin, ends, self.no_begin[older > level])

    def _add_level(self, totals: _Totals, level: int, begin: Ints, ends: Ints, older: Ints) -> None:
        """Visits of one level that begin at some marks; `ends` are those that end visits there, and
        at `older` there are visits that began before."""
        after = np.searchsorted(ends, begin, side="right")
        last = np.append(ends, len(self.state))[after] - 1
        site, ns = self.table.site[level][self.state[begin]], self._between(begin, last)
        if len(self.no_begin) or len(self.no_end):
            whole = ~(np.isin(last, self.no_end) | np.isin(begin, older))
            np.add.at(totals.partial, site[~whole], 1)
            site, ns = site[whole], ns[whole]
        totals.waiting.append((site, ns))
