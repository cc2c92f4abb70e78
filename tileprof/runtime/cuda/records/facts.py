"""Remarks from the records of a function.

In: times by site of all its launches, and the slots of some.  Out: remarks: who waits for whom,
what goes on meanwhile, what is uneven.  They say what was measured, not what to change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tileprof import ir
from tileprof.errors import Location
from tileprof.instrument import SiteTimes
from tileprof.instrument.decode import facts
from tileprof.instrument.decode.queues import flights_of
from tileprof.instrument.decode.timeline import timeline_of
from tileprof.instrument.slots import Slots
from tileprof.remarks import Decision, Remark

_MOST_SLOTS = 256
"""Largest number of slots whose single visits are examined."""
_MOST_PARTS = 16
_MOST_OF_A_KIND = 3
_NOTABLE = 0.01
"""Share of the time of all warps from which a wait, or what unevenness costs, is reported."""


@dataclass(slots=True)
class Observed:
    """Records of one function; `times` are parts of one sum."""

    times: list[SiteTimes] = field(default_factory=list)
    slots: Slots | None = None
    """The first of the newest reading."""

    def add(self, times: SiteTimes, slots: Slots) -> None:
        """Take what was read of some launches."""
        self.times.append(times)
        if len(self.times) > _MOST_PARTS:
            self.times = [SiteTimes.merge(self.times)]
        chosen = np.arange(min(len(slots), _MOST_SLOTS))
        self.slots = slots.take(chosen)

    def clear(self) -> None:
        """Forget it all."""
        self.times, self.slots = [], None

    def remarks(
        self, sites: Sequence[ir.Site], states: Sequence[ir.State], ns_per_cycle: float | None
    ) -> list[Remark]:
        """Return the facts, each at the line of its site where it has one."""
        if not self.times:
            return []
        times = SiteTimes.merge(self.times)
        found = [*_of_times(times, sites)]
        if self.slots is not None:
            timeline = timeline_of(self.slots, sites, states, ns_per_cycle=ns_per_cycle)
            flights = flights_of(timeline, sites)
            found += [(each.decision, None) for each in facts.hidden_work(flights)]
            if (both := facts.overlap(flights)) is not None:
                found.append((both.decision, None))
        return [Remark(said, "inside", "", place) for said, place in found]


def _of_times(
    times: SiteTimes, sites: Sequence[ir.Site]
) -> Iterator[tuple[Decision, Location | None]]:
    for share in facts.shares(times, sites):
        yield share.decision, None
    waits = [w for w in facts.exposed_waits(times, sites) if w.share >= _NOTABLE]
    for wait in waits[:_MOST_OF_A_KIND]:
        yield wait.decision, sites[wait.site].location
    uneven = [
        each
        for each in facts.imbalances(times, sites)
        if (each.factor - 1) * each.share >= _NOTABLE
    ]
    for each in uneven[:_MOST_OF_A_KIND]:
        yield each.decision, sites[each.site].location
