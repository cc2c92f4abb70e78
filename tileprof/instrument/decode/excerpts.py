"""Excerpt of some blocks of one launch: each visit, each piece of asynchronous work.

In: the slots of a launch.  Out: the timelines of a few of its blocks, chosen by how long they took,
and what they had under way asynchronously; whole ns since the begin of the block.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.instrument.slots import SlotHeads, Slots

from .blocks import blocks_of
from .clocks import cycles_of, launch_clocks
from .queues import Flights, flights_of
from .timeline import Timeline, Visits, timeline_of, visits_of

MOST_BLOCKS = 4
"""Largest number of blocks kept of a launch."""
MOST_VISITS = 50_000
"""Largest number of visits kept of a block; later ones count as if their records were lost."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_Missing = Literal["begin", "end", ""]


@dataclass(frozen=True, slots=True)
class ExcerptBlock:
    """Block whose visits are kept."""

    number: int
    sm: int
    begin_ns: int
    """Time on the clock of the device; `end_ns` too."""
    end_ns: int
    chosen: str
    """Why this one, in words."""


@dataclass(frozen=True, slots=True)
class ExcerptWarp:
    """A warp that was recorded; times are ns since the begin of its block."""

    block: int
    """Index in `blocks`."""
    number: int
    role: Literal["producer", "consumer", ""]
    """`producer`, `consumer`, or nothing where a kernel has no roles."""
    begin: int
    end: int
    missing: _Missing
    """`begin` or `end` where the records of that were lost, else nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """Columns of asynchronous work, one entry a group; of several waits the first that ended."""

    queue: Ints
    """Index in `queues`."""
    issuer: Ints
    """Place of the warp in `warps`, and `waiter` too."""
    waiter: Ints
    site: Ints
    waited_at: Ints
    issued: Ints
    wait: Ints
    retired: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Excerpt:
    """The timelines of some blocks of one launch."""

    recorded: int
    """Blocks that were recorded, of which these were chosen."""
    blocks: tuple[ExcerptBlock, ...]
    """Blocks in the order of their begins."""
    warps: tuple[ExcerptWarp, ...]
    """Block after block, producers first."""
    warp: Ints
    """(visits): place in `warps`."""
    site: Ints
    """(visits): index of the site."""
    begin: Ints
    """(visits): begin."""
    end: Ints
    """(visits): end."""
    queues: tuple[str, ...]
    passages: Passages
    function: str = ""
    device: str = ""
    launch: int = 0
    """Number of the launch among those of its function, from 0 on."""
    issued_ns: int = -1
    """When the host launched it (`time.perf_counter_ns()`); -1 where that is not known."""

    def numbered(self, sites: Ints) -> Excerpt:
        """Return the same with the number `sites[i]` for site `i`."""
        passages = replace(
            self.passages,
            site=sites[self.passages.site],
            waited_at=sites[self.passages.waited_at],
        )
        return replace(self, site=sites[self.site], passages=passages)


def excerpt_of(
    slots: Slots,
    sites: Sequence[ir.Site],
    states: Sequence[ir.State],
    *,
    consumer_warps: int | None = None,
    ns_per_cycle: float | None = None,
    most: int = MOST_BLOCKS,
) -> Excerpt | None:
    """Return up to `most` blocks of a launch: median by time, longest, shortest, first, last.

    None where no warp's clock makes sense.
    """
    _, good = cycles_of(slots)
    slots = slots if good.all() else slots.take(np.flatnonzero(good))
    if not len(slots):
        return None
    scale = launch_clocks(slots, ns_per_cycle).ns_per_cycle
    number = blocks_of(slots.heads)
    blocks = _chosen(slots.heads, number, scale, most)
    rows, block = _in_order(slots.heads, number, list(blocks), consumer_warps)
    # From here on the warps of the timeline are those of the excerpt, in cycles of the same length
    # as the blocks': a few warps alone tell it less well.
    slots, scale = slots.take(rows), scale[rows]
    timeline = timeline_of(slots, sites, states, scale=scale)
    visits, until = _capped(visits_of(timeline, sites), block)
    queues, passages = _passages(flights_of(timeline, sites), until[block])
    return Excerpt(
        recorded=int(number.max()) + 1,
        blocks=tuple(blocks.values()),
        warps=tuple(_warps(slots.heads, timeline, block, until, consumer_warps)),
        warp=visits.warp,
        site=visits.site,
        begin=_whole(visits.begin),
        end=_whole(visits.end),
        queues=queues,
        passages=passages,
    )


def one_replay(slots: Slots) -> tuple[Slots, int]:
    """Return one replay of launches that are one and the same, and its number from 0 on.

    It is the second replay, or the first where not all of the second is there.
    """
    number = slots.heads["block"].astype(np.int64) << 16 | slots.heads["warp"]
    order = np.argsort(number, kind="stable")
    new = np.append(True, np.diff(number[order]) != 0)[: len(order)]
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    which = int((turn == 1).sum() == (turn == 0).sum())
    return slots.take(np.flatnonzero(turn == which)), which


def _chosen(heads: SlotHeads, number: Ints, scale: Floats, most: int) -> dict[int, ExcerptBlock]:
    """Return blocks by their number here, in the order of their begins."""
    count = int(number.max()) + 1
    begin = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(begin, number, heads["begin_ns"].astype(np.int64))
    clocks = np.zeros((2, count), np.uint64)
    clocks[0] = np.iinfo(np.uint64).max
    np.minimum.at(clocks[0], number, heads["begin_clock"])
    np.maximum.at(clocks[1], number, heads["end_clock"])
    length = (clocks[1] - clocks[0]).astype(np.float64)
    why = _reasons(length, begin, most)
    made = {}
    numbers: NDArray[np.uint32] = heads["block"]
    sms: NDArray[np.uint32] = heads["sm"]
    for block in sorted(why, key=lambda each: (int(begin[each]), each)):
        row = int(np.flatnonzero(number == block)[0])
        end = int(begin[block]) + round(float(length[block] * scale[row]))
        place = int(numbers[row]), int(sms[row])
        made[block] = ExcerptBlock(*place, int(begin[block]), end, why[block])
    return made


def _reasons(length: Floats, begin: Ints, most: int) -> dict[int, str]:
    """Return the reason for each chosen block."""
    by_length, by_begin = np.argsort(length, kind="stable"), np.argsort(begin, kind="stable")
    reasons = (
        (by_length[len(length) // 2], "median"),
        (by_length[-1], "longest"),
        (by_length[0], "shortest"),
        (by_begin[0], "first"),
        (by_begin[-1], "last"),
    )
    why: dict[int, str] = {}
    for block, reason in ((int(block), reason) for block, reason in reasons):
        if block in why:
            why[block] += f", {reason}"
        elif len(why) < most:
            why[block] = reason
    for block in range(len(length)) if len(length) <= most else ():
        why.setdefault(block, "")
    return why


def _in_order(
    heads: SlotHeads, number: Ints, blocks: list[int], consumer_warps: int | None
) -> tuple[Ints, Ints]:
    """Return the slots of these blocks, producers first, and the place of the block of each."""
    place = np.full(int(number.max()) + 1, len(blocks))
    place[blocks] = np.arange(len(blocks))
    follows = heads["warp"] < (consumer_warps or 0)
    rows = np.lexsort((heads["warp"], follows, place[number]))
    rows = rows[place[number][rows] < len(blocks)]
    return rows, place[number][rows]


def _capped(visits: Visits, block: Ints) -> tuple[Visits, Floats]:
    """Return each block's first `MOST_VISITS` visits, and (blocks) the time where they end."""
    of, until = block[visits.warp], np.full(int(block.max()) + 1, np.inf)
    for at in np.flatnonzero(np.bincount(of, minlength=len(until)) > MOST_VISITS).tolist():
        until[at] = np.partition(visits.begin[of == at], MOST_VISITS)[MOST_VISITS]
    kept = visits.begin < until[of]
    end = np.minimum(visits.end, until[of])[kept]
    return Visits(visits.warp[kept], visits.site[kept], visits.begin[kept], end), until


def _warps(
    heads: SlotHeads,
    timeline: Timeline,
    block: Ints,
    until: Floats,
    consumer_warps: int | None,
) -> Iterator[ExcerptWarp]:
    wanted: NDArray[np.uint32] = heads["wanted"]
    kept: NDArray[np.uint32] = heads["kept"]
    lost = wanted > kept
    for row, (at, (begin, end)) in enumerate(zip(block.tolist(), timeline.span.tolist())):
        number, missing = int(timeline.warp[row]), _missing(timeline, row) if lost[row] else ""
        if end > until[at]:
            end, missing = until[at], "end"
        role = _role(number, consumer_warps)
        yield ExcerptWarp(at, number, role, round(min(begin, end)), round(end), missing)


def _missing(timeline: Timeline, row: int) -> _Missing:
    return "begin" if timeline.no_begin[row] else "end"


def _role(warp: int, consumer_warps: int | None) -> Literal["producer", "consumer", ""]:
    if not consumer_warps:
        return ""
    return "producer" if warp >= consumer_warps else "consumer"


def _passages(flights: Sequence[Flights], until: Floats) -> tuple[tuple[str, ...], Passages]:
    """Return what warps had under way until (warps) some time, each group once.

    A group belongs to the first warp that waited for it.
    """
    queues: list[str] = []
    parts = [np.empty((8, 0), np.int64)]
    for each in flights:
        times = map(_whole, (each.issued, each.wait, each.retired))
        rows = np.stack([np.full(len(each), len(queues)), each.issuer, each.waiter, each.site,
                         each.waited_at, *times])  # fmt: skip
        rows = rows[:, each.retired <= until[each.issuer]]
        rows = rows[:, np.lexsort((rows[7], rows[5], rows[1]))]
        again = (np.diff(rows[1]) == 0) & (np.diff(rows[5]) == 0)
        rows = rows[:, np.append(True, ~again)[: rows.shape[1]]]
        if rows.shape[1]:
            queues.append(each.queue)
            parts.append(rows)
    return tuple(queues), Passages(*np.concatenate(parts, axis=1))


def _whole(times: NDArray[np.float64]) -> Ints:
    return np.rint(times).astype(np.int64)
