"""Facts that times inside a kernel give: numbers, each with a sentence.

In: times by site; for overlaps asynchronous work (`queues.py`).  Out: facts.  A fact says what was
measured, not what to change.  Sites are recognised by what `placement/steps.py` and
`placement/regions.py` say of them: the queue that they wait for, and the names of waits for free
slots, of prologues and of epilogues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.instrument.decode.queues import Flights, loads_tiles
from tileprof.instrument.decode.times import SiteTimes
from tileprof.remarks import Decision, measured
from tileprof.remarks.measured import AroundLoop, ConsumersIdle, Overlapped, ProducersIdle, Uneven

FREE_SLOT = "wait for a free slot"
"""Beginning of the names of sites at which a producer has no slot to fill."""
_NOTABLE = 1.05
"""Slowest over mean, from which work counts as uneven."""

Kind = Literal["producer idle", "consumer idle", "prologue", "epilogue"]


@dataclass(frozen=True, slots=True)
class Share:
    """Share of some warps' time that was spent in one way."""

    kind: Kind
    ns: float
    of_ns: float

    @property
    def share(self) -> float:
        """Share of the warps' time, 0 to 1."""
        return self.ns / self.of_ns

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        match self.kind:
            case "producer idle":
                return ProducersIdle(self.share)
            case "consumer idle":
                return ConsumersIdle(self.share)
            case _:
                return AroundLoop(self.kind, self.share)


def shares(times: SiteTimes, sites: Sequence[ir.Site]) -> list[Share]:
    """Return the shares of waits of producers and consumers, and of time outside the main loop.

    In a kernel without producers all warps are consumers. A share of 0 is reported where there is
    such a site; a site within another of its kind counts once.
    """
    known = {site.id: site for site in sites}
    producer, consumer = _by_role(times)
    found = []
    for kind in ("producer idle", "consumer idle", "prologue", "epilogue"):
        time = producer if kind == "producer idle" else consumer
        of_ns = float(time[times.parents < 0].sum())
        chosen = np.array([_is_kind(kind, known[s]) for s in times.site.tolist()], np.bool_)
        chosen &= ~_inside(times, chosen)
        if chosen.any() and of_ns > 0:
            found.append(Share(kind, float(time[chosen].sum()), of_ns))
    return found


def _by_role(times: SiteTimes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the time of producers and of consumers at each entry."""
    none = np.zeros(len(times))
    producer = none if times.spread is None else times.spread.producer_ns
    return producer, times.total_ns - producer


def _is_kind(kind: str, site: ir.Site) -> bool:
    match kind:
        case "producer idle":
            return site.name.startswith(FREE_SLOT)
        case "consumer idle":
            return loads_tiles(site.retires)
        case _:
            return site.kind == "stage" and site.name == kind


def _inside(times: SiteTimes, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return (entries): whether each lies within a chosen one."""
    inside = np.zeros(len(times), np.bool_)
    for at, parent in enumerate(times.parents.tolist()):
        inside[at] = parent >= 0 and (inside[parent] or chosen[parent])
    return inside


@dataclass(frozen=True, slots=True)
class ExposedWait:
    """Duration of the visits of a wait."""

    site: int
    name: str
    visits: int
    mean_ns: float
    late_ns: float
    """95 % of the visits take at most this; NaN where single visits were not measured."""
    share: float
    """Share of the time of all workers."""

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        late = 0.0 if np.isnan(self.late_ns) else self.late_ns
        return measured.ExposedWait(self.name, self.mean_ns, self.share, late)


def exposed_waits(times: SiteTimes, sites: Sequence[ir.Site]) -> list[ExposedWait]:
    """Return the waits for asynchronous work, the longest first."""
    known = {site.id: site for site in sites}
    late = times.quantile(0.95)
    found = []
    for at, number in enumerate(times.site.tolist()):
        site, count, total = known[number], int(times.count[at]), int(times.total_ns[at])
        if (site.retires or site.name.startswith(FREE_SLOT)) and count:
            share = total / times.block_ns if times.block_ns else 0.0
            numbers = (total / count, float(late[at]), share)
            found.append(ExposedWait(number, site.name, count, *numbers))
    return sorted(found, key=lambda each: -each.share)


@dataclass(frozen=True, slots=True)
class Imbalance:
    """The slowest over the mean, of the warps of a block or the blocks of a launch at a site."""

    site: int
    name: str
    over: Literal["warps", "blocks"]
    factor: float
    share: float
    """Share of the time of all workers that is spent there."""

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        of: Literal["warp of a block", "block of a launch"] = "block of a launch"
        return Uneven(self.name, "warp of a block" if self.over == "warps" else of, self.factor)


def imbalances(times: SiteTimes, sites: Sequence[ir.Site]) -> list[Imbalance]:
    """Return where work is uneven by 5 % or more, the most expensive place first."""
    known = {site.id: site for site in sites}
    if times.spread is None or not times.block_ns:
        return []
    factors = {"warps": times.spread.over_workers, "blocks": times.spread.over_blocks}
    found = [
        Imbalance(number, known[number].name, "warps" if over == "warps" else "blocks", f, share)
        for over, values in factors.items()
        for number, f, share in zip(
            times.site.tolist(), values.tolist(), (times.total_ns / times.block_ns).tolist()
        )
        if f >= _NOTABLE
    ]
    # Of an outer and an inner site that cost the same, the inner one says more.
    return sorted(found, key=lambda f: (-round((f.factor - 1) * f.share, 9), -f.factor))


@dataclass(frozen=True, slots=True)
class Hidden:
    """Share of a queue's asynchronous work that goes on while nobody waits for it."""

    queue: str
    groups: int
    flight_ns: float
    """Time from starts to ends of waits, summed, in ns."""
    exposed_ns: float
    """Part of that time in which a warp waited, in ns."""

    @property
    def share(self) -> float:
        """Hidden, 0 to 1."""
        return 1 - self.exposed_ns / self.flight_ns

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        return measured.Hidden(_work(self.queue), self.share)


def _work(queue: str) -> str:
    names = {"wgmma": "a matrix product", "cp.async": "a copy", "bulk": "a store"}
    return names.get(queue, f"a load ({queue})")


def hidden_work(flights: Sequence[Flights]) -> list[Hidden]:
    """Return one fact for each queue in which something was retired."""
    made = [
        Hidden(f.queue, len(f), float(f.flight_ns.sum()), float(f.exposed_ns.sum()))
        for f in flights
    ]
    return [each for each in made if each.flight_ns > 0]


@dataclass(frozen=True, slots=True)
class Overlap:
    """Times in which loads and matrix products of one block are under way, alone and together."""

    loads_ns: float
    products_ns: float
    both_ns: float

    @property
    def share(self) -> float:
        """Time in which both are under way, as a share of the shorter of the two, 0 to 1."""
        return self.both_ns / min(self.loads_ns, self.products_ns)

    @property
    def decision(self) -> Decision:
        """The fact as a remark has it."""
        if self.loads_ns <= self.products_ns:
            return Overlapped("loads", "matrix products", self.share)
        return Overlapped("matrix products", "loads", self.share)


def overlap(flights: Sequence[Flights]) -> Overlap | None:
    """Return the overlap over all blocks; None unless both kinds of work are asynchronous.

    Work is under way until somebody who waits for it knows that it is done, so both times are upper
    bounds.
    """
    loads = [f for f in flights if loads_tiles(f.queue)]
    products = [f for f in flights if f.queue == "wgmma"]
    blocks = sorted({b for f in (*loads, *products) for b in f.block.tolist()})
    sums = np.zeros(3)
    for block in blocks:
        a, b = _union(loads, block), _union(products, block)
        sums += (_length(a), _length(b), _length(a) + _length(b) - _length(_merged([a, b])))
    return Overlap(*sums.tolist()) if sums[0] > 0 and sums[1] > 0 else None


_Spans = NDArray[np.float64]
"""(spans, 2): begin and end, apart from each other and in order."""


def _union(flights: Sequence[Flights], block: int) -> _Spans:
    chosen = [f.block == block for f in flights]
    spans = [np.stack([f.issued[c], f.retired[c]], axis=1) for f, c in zip(flights, chosen)]
    return _merged([np.empty((0, 2)), *spans])


def _merged(parts: Sequence[_Spans]) -> _Spans:
    spans = np.concatenate(parts)
    spans = spans[np.argsort(spans[:, 0], kind="stable")]
    if not len(spans):
        return spans
    until = np.maximum.accumulate(spans[:, 1])
    first = np.flatnonzero(np.append(True, spans[1:, 0] > until[:-1]))
    last = np.append(first[1:], len(spans)) - 1
    return np.stack([spans[first, 0], until[last]], axis=1)


def _length(spans: _Spans) -> float:
    return float((spans[:, 1] - spans[:, 0]).sum())
