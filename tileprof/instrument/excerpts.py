"""Some blocks of one launch, as they are kept to be looked at: each visit, each flight.

In: the slots of a launch.  Out: the timelines of a few of its blocks, chosen by how long they took,
and what they had under way asynchronously; whole ns since the begin of the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir

from .clocks import cycles_of
from .queues import Flights, flights_of
from .slots import SlotHeads, Slots
from .timeline import Timeline, timeline_of, visits_of

__all__ = ["MOST_BLOCKS", "Excerpt", "ExcerptBlock", "ExcerptWarp", "Passages", "excerpt_of"]
__all__ += ["one_replay"]

MOST_BLOCKS = 4
"""Of a launch."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ExcerptBlock:
    """A block."""

    number: int
    sm: int
    begin_ns: int
    """On the clock of the device, and `end_ns` too."""
    end_ns: int
    chosen: str
    """Why this one, in words."""


@dataclass(frozen=True, slots=True)
class ExcerptWarp:
    """A warp that was recorded; times are ns since the begin of its block."""

    block: int
    """Place in `blocks`."""
    number: int
    role: Literal["producer", "consumer", ""]
    """`producer`, `consumer`, or nothing where a kernel has no roles."""
    begin: int
    end: int
    missing: Literal["begin", "end", ""]
    """`begin` or `end` where the records of that were lost, else nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Passages:
    """Columns of asynchronous work, one entry a group; of several waits the first that ended."""

    queue: Ints
    """Place in `queues`."""
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
    """In the order of their begins."""
    warps: tuple[ExcerptWarp, ...]
    """Block after block, producers first."""
    warp: Ints
    """(visits): place in `warps`."""
    site: Ints
    """(visits)"""
    begin: Ints
    """(visits)"""
    end: Ints
    """(visits)"""
    queues: tuple[str, ...]
    passages: Passages
    function: str = ""
    device: str = ""
    launch: int = 0
    """Number of the launch among those of its function, from 0 on."""
    issued_ns: int = -1
    """When the host launched it (`time.perf_counter_ns()`); -1 where that is not known."""

    def numbered(self, sites: Ints) -> Excerpt:
        """The same with the number `sites[i]` for site `i`."""
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
    """Up to `most` blocks of one launch: the median by time, the longest, the shortest, the first.

    None where no warp's clock makes sense.
    """
    _, good = cycles_of(slots)
    # Then the warps of the timeline are those of the slots.
    slots = slots if good.all() else slots.take(np.flatnonzero(good))
    if not len(slots):
        return None
    timeline = timeline_of(slots, sites, states, ns_per_cycle=ns_per_cycle)
    blocks = _chosen(slots.heads, timeline, most)
    warps, rows = _warps(slots.heads, timeline, list(blocks), consumer_warps)
    place = np.full(len(slots) + 1, -1, np.int64)
    place[rows] = np.arange(len(rows))
    visits = visits_of(timeline, sites)
    order = np.argsort(place[visits.warp], kind="stable")
    order = order[place[visits.warp][order] >= 0]
    queues, passages = _passages(flights_of(timeline, sites), place)
    return Excerpt(
        recorded=int(timeline.block.max()) + 1,
        blocks=tuple(blocks.values()),
        warps=tuple(warps),
        warp=place[visits.warp][order],
        site=visits.site[order],
        begin=_whole(visits.begin[order]),
        end=_whole(visits.end[order]),
        queues=queues,
        passages=passages,
    )


def one_replay(slots: Slots) -> tuple[Slots, int]:
    """Of launches that are one and the same the slots of the second, or of the first where not all
    of the second is there; and which it is, from 0 on."""
    number = slots.heads["block"].astype(np.int64) << 16 | slots.heads["warp"]
    order = np.argsort(number, kind="stable")
    new = np.append(True, np.diff(number[order]) != 0)[: len(order)]
    turn = np.empty(len(order), np.int64)
    turn[order] = np.arange(len(order)) - np.flatnonzero(new)[np.cumsum(new) - 1]
    which = int((turn == 1).sum() == (turn == 0).sum())
    return slots.take(np.flatnonzero(turn == which)), which


def _chosen(heads: SlotHeads, timeline: Timeline, most: int) -> dict[int, ExcerptBlock]:
    """By number in the timeline, in the order of their begins."""
    count = int(timeline.block.max()) + 1
    begin = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(begin, timeline.block, heads["begin_ns"].astype(np.int64))
    length = np.zeros(count)
    np.maximum.at(length, timeline.block, timeline.span[:, 1])
    by_length, by_begin = np.argsort(length, kind="stable"), np.argsort(begin, kind="stable")
    reasons = (
        (by_length[count // 2], "median"),
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
    for block in by_begin.tolist()[: most - len(why)] if count <= most else ():
        why.setdefault(block, "")
    made = {}
    for block in sorted(why, key=lambda each: (int(begin[each]), each)):
        head = heads[int(np.flatnonzero(timeline.block == block)[0])]
        end = int(begin[block]) + round(float(length[block]))
        made[block] = ExcerptBlock(
            int(head["block"]), int(head["sm"]), int(begin[block]), end, why[block]
        )
    return made


def _warps(
    heads: SlotHeads, timeline: Timeline, blocks: list[int], consumer_warps: int | None
) -> tuple[list[ExcerptWarp], list[int]]:
    """The warps of blocks, and their places in the timeline."""
    found: list[ExcerptWarp] = []
    rows: list[int] = []
    missing = heads["wanted"] > heads["kept"]
    for at, block in enumerate(blocks):
        mine = np.flatnonzero(timeline.block == block).tolist()
        roles = {row: _role(int(timeline.warp[row]), consumer_warps) for row in mine}
        for row in sorted(mine, key=lambda r: (roles[r] != "producer", int(timeline.warp[r]))):
            lost: Literal["begin", "end", ""] = ""
            if missing[row]:
                lost = "begin" if timeline.no_begin[row] else "end"
            begin, end = (round(each) for each in timeline.span[row].tolist())
            number = int(timeline.warp[row])
            found.append(ExcerptWarp(at, number, roles[row], begin, end, lost))
            rows.append(row)
    return found, rows


def _role(warp: int, consumer_warps: int | None) -> Literal["producer", "consumer", ""]:
    if not consumer_warps:
        return ""
    return "producer" if warp >= consumer_warps else "consumer"


def _passages(flights: Sequence[Flights], place: Ints) -> tuple[tuple[str, ...], Passages]:
    """What these warps had under way, each group once: who waited for it first knew it first."""
    queues: list[str] = []
    parts = [np.empty((8, 0), np.int64)]
    for each in flights:
        issuer, waiter = place[each.issuer], place[each.waiter]
        times = map(_whole, (each.issued, each.wait, each.retired))
        rows = np.stack([np.full(len(each), len(queues)), issuer, waiter, each.site,
                         each.waited_at, *times])  # fmt: skip
        rows = rows[:, (issuer >= 0) & (waiter >= 0)]
        rows = rows[:, np.lexsort((rows[7], rows[5], rows[1]))]
        again = (np.diff(rows[1]) == 0) & (np.diff(rows[5]) == 0)
        rows = rows[:, np.append(True, ~again)[: rows.shape[1]]]
        if rows.shape[1]:
            queues.append(each.queue)
            parts.append(rows)
    return tuple(queues), Passages(*np.concatenate(parts, axis=1))


def _whole(times: NDArray[np.float64]) -> Ints:
    return np.rint(times).astype(np.int64)
