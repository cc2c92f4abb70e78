"""Facts that times inside a kernel give: numbers, each with a sentence.

In: times by site; for overlaps asynchronous work (`overlaps.py`), for tails slots (`tails.py`).
Out: facts.  A fact says what was measured, not what to change.  Sites are recognised by what
`steps.py` and `regions.py` say of them: the queue that they wait for, and the names of waits for
free slots, of prologues and of epilogues.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tileprof import ir
from tileprof.remarks import Decision, measured
from tileprof.remarks.measured import AroundLoop, ConsumersIdle, ProducersIdle, Uneven

from .launch_fill import Tail, tail
from .overlaps import Hidden, Overlap, hidden_work, overlap
from .queues import loads_tiles
from .times import SiteTimes

__all__ = ["ExposedWait", "Hidden", "Imbalance", "Overlap", "Share", "Tail", "exposed_waits"]
__all__ += ["hidden_work", "imbalances", "overlap", "shares", "tail"]

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
    median_ns: float
    """Median visit, in ns; NaN where single visits were not measured."""
    late_ns: float
    """95 % of the visits take at most this."""
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
    median, late = times.quantile(0.5), times.quantile(0.95)
    found = []
    for at, number in enumerate(times.site.tolist()):
        site, count, total = known[number], int(times.count[at]), int(times.total_ns[at])
        if (site.retires or site.name.startswith(FREE_SLOT)) and count:
            share = total / times.block_ns if times.block_ns else 0.0
            numbers = (total / count, float(median[at]), float(late[at]), share)
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
