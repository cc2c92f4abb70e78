"""Timeline of each recorded warp: a row for each mark, on the time axis of its block.

In: slots, and a kernel's sites and states.  Out: arrays for analyses of single visits, such as
queues and overlaps; sums over many launches come from `warp_times.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.instrument.slots import Slots
from tileprof.instrument.state_table import path_of

from .blocks import blocks_of
from .clocks import cycles_of, launch_clocks

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Marks of some warps; times are ns since the first recorded warp of the block began."""

    starts: Ints
    """(warps + 1): where the marks of each begin."""
    block: Ints
    """(warps): a number of the block, from 0 on."""
    warp: Ints
    """(warps): its number in the block."""
    span: Floats
    """(warps, 2): when it began and ended; at its last mark where the newest are missing."""
    no_begin: Flags
    """(warps): its oldest marks are missing."""
    site: Ints
    """(marks): number of the innermost site; -1 outside of all."""
    fresh: Ints
    """(marks): how many sites around it, from the outermost on, are visited on from before."""
    visits: Flags
    """(marks): whether a visit of that site begins here, of which the end is known."""
    begin: Floats
    """(marks): time of the mark, in ns."""
    end: Floats
    """(marks): when the state of the mark ends."""

    def marks(self, warp: int) -> slice:
        """Return the rows of one warp."""
        return slice(int(self.starts[warp]), int(self.starts[warp + 1]))


def timeline_of(
    slots: Slots,
    sites: Sequence[ir.Site],
    states: Sequence[ir.State],
    *,
    ns_per_cycle: float | None = None,
    scale: Floats | None = None,
) -> Timeline:
    """Return the marks of slots, without the warps whose clocks make no sense.

    `ns_per_cycle` as in `decode_slots`; `scale` (slots): ns per cycle where slots are a part of a
    launch whose whole tells it better.  What marks take themselves is not taken off: warps are
    compared with one another.
    """
    if scale is None:
        scale = launch_clocks(slots, ns_per_cycle).ns_per_cycle
    cycles, good = cycles_of(slots)
    if not good.all():
        slots, scale = slots.take(np.flatnonzero(good)), scale[good]
        cycles, _ = cycles_of(slots)
    heads, starts, block = slots.heads, slots.starts, blocks_of(slots.heads)
    shift = _since_block(heads["begin_clock"], block)
    length, lacks, kept = slots.length, slots.lacks, np.diff(starts)
    no_begin = slots.goes_round & lacks
    no_end = ~no_begin & lacks
    there = np.flatnonzero(kept)
    last = starts[there + 1] - 1
    length[there] = np.where(no_end[there], cycles[last], length[there])
    end = np.append(cycles[1:], 0.0)[: len(cycles)]
    end[last] = length[there]
    of_mark = np.repeat(np.arange(len(slots)), kept)
    state: NDArray[np.uint32] = slots.records["state"]
    visits = _visits(sites, states)[state]
    visits[starts[1:][no_end & (kept > 0)] - 1] = False
    return Timeline(
        starts,
        block,
        heads["warp"].astype(np.int64),
        np.stack([shift, shift + length], axis=1) * scale[:, None],
        no_begin,
        np.array([each.site for each in states], np.int64)[state],
        np.array([each.fresh for each in states], np.int64)[state],
        visits,
        (cycles + shift[of_mark]) * scale[of_mark],
        (end + shift[of_mark]) * scale[of_mark],
    )


def _since_block(begin: NDArray[np.uint64], block: Ints) -> Floats:
    """Return cycles from the begin of the first warp of a block to that of each."""
    first = np.full(int(block.max(initial=-1)) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, block, begin)
    return (begin - first[block]).astype(np.float64)


def _visits(sites: Sequence[ir.Site], states: Sequence[ir.State]) -> Flags:
    """Return (states): whether their innermost site is visited anew."""
    parents = {site.id: site.parent for site in sites}
    depths = (len(path_of(state.site, parents)) for state in states)
    return np.array([s.fresh < depth for s, depth in zip(states, depths)], np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Visits of sites, those around others too; times as in `Timeline`."""

    warp: Ints
    """Place of the warp in the timeline."""
    site: Ints
    begin: Floats
    end: Floats

    def __len__(self) -> int:
        return len(self.warp)


def visits_of(timeline: Timeline, sites: Sequence[ir.Site]) -> Visits:
    """Return all visits by warp, in the order of begins, a visit before those inside it.

    What was under way when the oldest or the newest records of a warp went missing is there as far
    as it was seen.
    """
    marks = len(timeline.site)
    first = np.zeros(marks, np.bool_)
    counts = np.diff(timeline.starts)
    first[timeline.starts[:-1][counts > 0]] = True
    warp, paths = np.repeat(np.arange(len(counts)), counts), _paths(sites)
    path = paths[timeline.site]
    found: list[tuple[Ints, Ints, Ints, Ints]] = []
    for depth in range(paths.shape[1]):
        turns = np.flatnonzero(first | (timeline.fresh <= depth))
        last = np.append(turns[1:], marks)[: len(turns)] - 1
        there = path[turns, depth] >= 0
        turns, last = turns[there], last[there]
        found.append((turns, np.full(len(turns), depth), last, path[turns, depth]))
    mark, depth_of, last, site = map(np.concatenate, zip(*found))
    order = np.lexsort((depth_of, mark))
    mark, last = mark[order], last[order]
    return Visits(warp[mark], site[order], timeline.begin[mark], timeline.end[last])


def _paths(sites: Sequence[ir.Site]) -> Ints:
    """(sites + 1, depth): the sites around each and itself, outermost first, then -1; the last row,
    that of site -1, has none."""
    parents = {site.id: site.parent for site in sites}
    paths = {site.id: path_of(site.id, parents) for site in sites}
    depth = max(map(len, paths.values()), default=1)
    made = np.full((max(paths, default=-1) + 2, depth), -1, np.int64)
    for number, path in paths.items():
        made[number, : len(path)] = path
    return made
