"""Asynchronous work from its start to the wait that retires it.

In: a timeline, and the sites that start work or wait for it (`ir.Site.issues`, `retires`,
`pending`).  Out: one row for each group of copies or products and each warp that waited for it.

- Queues of a warp (`wgmma`, `cp.async`, `bulk`) run in order: at the end of a wait that leaves p
  groups running, all groups that were started before are retired but the p youngest.
- A ring is filled by one warp and read by others: the k-th group is retired by the k-th wait of
  each of these.

A start of a product is a group of its own.  Starts of copies are one group as long as they follow
one another and none of them comes again.  Groups without a copy leave no mark, so where a kernel
has some (at the end of a loop that loads ahead) a wait retires later than it truly does.  When work
was done is not known, only when somebody who waited for it knew.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tileprof import ir

from .timeline import Timeline

IN_ORDER = ("wgmma", "cp.async", "bulk")
"""Queues of a warp's own; any other is a ring."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def loads_tiles(queue: str) -> bool:
    """Return whether a queue carries tiles into a block."""
    return queue == "cp.async" or bool(queue and queue not in IN_ORDER)


@dataclass(frozen=True, slots=True, eq=False)
class Flights:
    """Groups of asynchronous work of one queue; times as in `Timeline`."""

    queue: str
    block: Ints
    site: Ints
    """(groups): site that started the work; of a group of several, the first."""
    waited_at: Ints
    """The site that waited."""
    issued: Floats
    """When the first of a group began to be started."""
    wait: Floats
    """When the wait began."""
    retired: Floats
    """When the wait ended."""
    issuer: Ints
    """The warp that started it, and `waiter` that which waited: their places in the timeline."""
    waiter: Ints
    unretired: int = 0
    """Groups that nobody was seen to wait for: records end, or begin, in between."""

    def __len__(self) -> int:
        return len(self.block)

    @property
    def flight_ns(self) -> Floats:
        """Time from the start of the work to the end of the wait, in ns."""
        return self.retired - self.issued

    @property
    def exposed_ns(self) -> Floats:
        """Time spent waiting for the work, in ns."""
        return self.retired - np.maximum(self.wait, self.issued)


@dataclass(frozen=True, slots=True)
class _Queue:
    """Sites that start work to a queue and wait for it."""

    name: str
    issues: Ints
    retires: Ints
    pending: dict[int, int]

    @classmethod
    def of(cls, name: str, sites: Sequence[ir.Site]) -> _Queue:
        retires = [site for site in sites if site.retires == name]
        return cls(
            name,
            np.array([site.id for site in sites if site.issues == name], np.int64),
            np.array([site.id for site in retires], np.int64),
            {site.id: site.pending for site in retires},
        )


def flights_of(timeline: Timeline, sites: Sequence[ir.Site]) -> list[Flights]:
    """Return the asynchronous work of all queues, one after the other in the order of the sites."""
    names = dict.fromkeys(site.issues for site in sites if site.issues)
    return [_of_queue(timeline, _Queue.of(name, sites)) for name in names]


def _of_queue(timeline: Timeline, queue: _Queue) -> Flights:
    groups = [_groups(timeline, queue, warp) for warp in range(len(timeline.block))]
    waits = [_marks_at(timeline, queue.retires, warp) for warp in range(len(timeline.block))]
    rows, unretired = [], 0
    if queue.name in IN_ORDER:
        for warp, (issued, waited) in enumerate(zip(groups, waits)):
            pending = np.array([queue.pending[s] for s in timeline.site[waited].tolist()], np.int64)
            pairs, left = _in_order(issued, waited, pending)
            rows.append(_rows(timeline, warp, warp, *pairs))
            unretired += left
    else:
        for issuer, waiter in _across(timeline, groups, waits):
            count = min(len(groups[issuer]), len(waits[waiter]))
            if timeline.no_begin[issuer] or timeline.no_begin[waiter]:
                # Which wait is which is not known.
                count = 0
            pairs = groups[issuer][:count], waits[waiter][:count]
            rows.append(_rows(timeline, issuer, waiter, *pairs))
            unretired += len(groups[issuer]) - count
    return _joined(queue.name, rows, unretired)


def _marks_at(timeline: Timeline, sites: Ints, warp: int) -> Ints:
    """Return the marks at which a warp's visits of some sites begin."""
    mine = timeline.marks(warp)
    found = timeline.visits[mine] & np.isin(timeline.site[mine], sites)
    return np.asarray(np.flatnonzero(found) + mine.start)


def _groups(timeline: Timeline, queue: _Queue, warp: int) -> Ints:
    """Return the first mark of each group of a warp."""
    marks = _marks_at(timeline, queue.issues, warp)
    if queue.name == "wgmma" or not len(marks):
        return marks
    site = timeline.site[marks]
    begins_run = np.append(True, np.diff(marks) > 1)
    first = site[begins_run][np.cumsum(begins_run) - 1]
    return np.asarray(marks[begins_run | (site == first)])


def _in_order(issued: Ints, waited: Ints, pending: Ints) -> tuple[tuple[Ints, Ints], int]:
    """Return groups and the waits that retire them, and how many groups are not retired."""
    if not len(waited):
        return (issued[:0], waited), len(issued)
    retired = np.maximum.accumulate(np.searchsorted(issued, waited) - pending)
    by = np.searchsorted(retired, np.arange(len(issued)), side="right")
    known = by < len(waited)
    return (issued[known], waited[by[known]]), int((~known).sum())


def _across(timeline: Timeline, groups: list[Ints], waits: list[Ints]) -> Iterator[tuple[int, int]]:
    """Yield warps that fill a ring, each with every warp of its block that reads it."""
    for issuer in (w for w, each in enumerate(groups) if len(each)):
        for waiter in np.flatnonzero(timeline.block == timeline.block[issuer]).tolist():
            if len(waits[waiter]):
                yield issuer, waiter


_Rows = tuple[Ints, Ints, Ints, Floats, Floats, Floats, Ints, Ints]


def _rows(timeline: Timeline, issuer: int, waiter: int, issued: Ints, waited: Ints) -> _Rows:
    return (
        np.full(len(issued), timeline.block[issuer]),
        timeline.site[issued],
        timeline.site[waited],
        timeline.begin[issued],
        timeline.begin[waited],
        timeline.end[waited],
        np.full(len(issued), issuer),
        np.full(len(issued), waiter),
    )


def _joined(name: str, rows: list[_Rows], unretired: int) -> Flights:
    whole, times = np.empty(0, np.int64), np.empty(0)
    rows = [(whole, whole, whole, times, times, times, whole, whole), *rows]
    block, site, waited_at, issued, wait, retired, issuer, waiter = map(np.concatenate, zip(*rows))
    return Flights(name, block, site, waited_at, issued, wait, retired, issuer, waiter, unretired)
