"""Timelines of single CTAs (blocks of a launch): which warp was at which site when.

In: a few CTAs of a few launches, as a device recorded them.  Out: the same for a profile of several
runs.  Times are whole ns since the begin of a CTA; where that begin lies is told on the clock of
its device, so CTAs of one device can be put beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError
from tileprof.once import cached_property
from tileprof.profile.columns import Columns, within
from tileprof.profile.storage.limits import NANOSECONDS, SITES

_Ints = npt.NDArray[np.int64]
_Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class CtaLaunch:
    """A launch of which some CTAs were kept."""

    kernel: int
    """Place in the tables' `kernels`."""
    function: str
    device: str
    number: int
    """Number of the launch, from 0, among the recorded launches of its function."""
    recorded: int
    """CTAs that were recorded, of which those here were chosen."""
    issued: int = -1
    """Time at which the host launched it, in ns on the clock of the profile's timeline; -1 if
    unknown."""


@dataclass(frozen=True, slots=True)
class Cta:
    """A block of a launch."""

    launch: int
    """Place in `launches`."""
    block: int
    """Number of the block in the grid."""
    sm: int
    begin: int
    """Begin in ns on the clock of the device, like `end`."""
    end: int
    chosen: str
    """Why this one: `median`, `longest`, `shortest`, `first`, `last`, or several of them."""


@dataclass(frozen=True, slots=True)
class CtaWarp:
    """A warp of a CTA; times are ns since the CTA began."""

    cta: int
    """Place in `ctas`."""
    warp: int
    role: Literal["producer", "consumer", ""]
    begin: int
    end: int
    missing: Literal["begin", "end", ""] = ""
    """End of its time whose records were lost."""


@dataclass(frozen=True, slots=True, eq=False)
class CtaVisits(Columns):
    """Columns with an entry a visit: warp after warp, by begin, a visit before those inside it."""

    warp: _Numbers
    """Place in `warps`."""
    site: _Numbers
    """`id` among the sites of the kernel."""
    begin: _Ints
    """Begins in ns since the CTA began, like `end`."""
    end: _Ints


@dataclass(frozen=True, slots=True, eq=False)
class CtaFlights(Columns):
    """Columns with an entry a piece of asynchronous work; times as in `CtaVisits`."""

    queue: _Numbers
    """Place in `queues`."""
    issuer: _Numbers
    """Place in `warps` of the warp that started it, `waiter` of the first that knew its end."""
    waiter: _Numbers
    site: _Numbers
    """Site that started it; `waited_at` is the site that waited."""
    waited_at: _Numbers
    issued: _Ints
    wait: _Ints
    """Begin of the wait, in ns."""
    retired: _Ints
    """End of the wait, in ns: the work was done by then."""


def _nothing() -> tuple[CtaVisits, CtaFlights]:
    return CtaVisits.none(), CtaFlights.none()


class CtaTimelines:
    """The CTAs of a profile; the columns are made when they are first asked for."""

    def __init__(
        self,
        launches: Sequence[CtaLaunch] = (),
        ctas: Sequence[Cta] = (),
        warps: Sequence[CtaWarp] = (),
        queues: Sequence[str] = (),
        make: Callable[[], tuple[CtaVisits, CtaFlights]] = _nothing,
    ) -> None:
        self.launches, self.ctas = tuple(launches), tuple(ctas)
        self.warps, self.queues = tuple(warps), tuple(queues)
        self._make = make

    @cached_property
    def _columns(self) -> tuple[CtaVisits, CtaFlights]:
        return self._make()

    @property
    def visits(self) -> CtaVisits:
        """All visits; `ProfileFileError` where the file that they come from is damaged."""
        return self._columns[0]

    @property
    def flights(self) -> CtaFlights:
        """All asynchronous work; raises as `visits` does."""
        return self._columns[1]

    def check(self, kernels: int) -> None:
        """Raise `InternalError` where a launch, CTA or warp refers to what does not exist."""
        limits = (
            ([each.kernel for each in self.launches], kernels),
            ([each.launch for each in self.ctas], len(self.launches)),
            ([each.cta for each in self.warps], len(self.ctas)),
        )
        if not within((np.array(places), 0, end) for places, end in limits):
            raise InternalError("the timeline of a CTA refers to what does not exist")
        spans = [(each.begin, each.end) for each in self.ctas]
        spans += [(each.begin, each.end) for each in self.warps]
        if any(end < begin for begin, end in spans):
            raise InternalError("a CTA or one of its warps ends before it begins")

    def check_columns(self) -> None:
        """Raise `InternalError` where a visit or a flight does, or is not in order."""
        visits, flights = self.visits, self.flights
        if not (visits.is_even() and flights.is_even()):
            raise InternalError("the columns of the CTAs' timelines are not of one length")
        warps = (visits.warp, flights.issuer, flights.waiter)
        sites = (visits.site, flights.site, flights.waited_at)
        limits = [*((each, 0, len(self.warps)) for each in warps), *((e, 0, SITES) for e in sites)]
        if not within([*limits, (flights.queue, 0, len(self.queues))]):
            raise InternalError("a visit in a CTA refers to what does not exist")
        if (np.diff(visits.warp) < 0).any() or (visits.end < visits.begin).any():
            raise InternalError("the visits in CTAs are not in order")
        times = (visits.begin, visits.end, flights.issued, flights.wait, flights.retired)
        if not within((each, 0, NANOSECONDS + 1) for each in times):
            raise InternalError("a visit in a CTA is before the CTA began, or ages after it")

    def of_kernels(self, to: Sequence[int]) -> CtaTimelines:
        """Return the timelines where kernel `i` has become kernel `to[i]`."""
        launches = [replace(each, kernel=to[each.kernel]) for each in self.launches]
        return CtaTimelines(launches, self.ctas, self.warps, self.queues, lambda: self._columns)

    @staticmethod
    def joined(parts: Sequence[CtaTimelines]) -> CtaTimelines:
        """Return those of several runs, whose kernels are numbered together already.

        Runs have no common time, so launches lose their place on the host's.
        """
        if len(held := [part for part in parts if part.launches]) <= 1:
            found = held[0] if held else CtaTimelines()
            return found if len(parts) <= 1 else _without_host(found)
        names = list(dict.fromkeys(queue for part in held for queue in part.queues))
        launches: list[CtaLaunch] = []
        ctas: list[Cta] = []
        warps: list[CtaWarp] = []
        first_warps: list[int] = []
        for part in held:
            first_warps.append(len(warps))
            warps += [replace(each, cta=each.cta + len(ctas)) for each in part.warps]
            ctas += [replace(each, launch=each.launch + len(launches)) for each in part.ctas]
            launches += _without_host(part).launches
        return CtaTimelines(
            launches, ctas, warps, names, lambda: _joined_columns(held, first_warps, names)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CtaTimelines):
            return NotImplemented
        mine, its = ((each.launches, each.ctas, each.warps, each.queues) for each in (self, other))
        return mine == its and self._columns == other._columns

    __hash__ = None  # type: ignore[assignment] # compared by value, and holds arrays

    def __reduce__(self) -> tuple[Any, ...]:
        rows = (self.launches, self.ctas, self.warps, self.queues)
        return (_holding, (*rows, *self._columns))

    def __repr__(self) -> str:
        return f"CtaTimelines({len(self.ctas)} CTAs)"


def _holding(
    launches: Sequence[CtaLaunch],
    ctas: Sequence[Cta],
    warps: Sequence[CtaWarp],
    queues: Sequence[str],
    visits: CtaVisits,
    flights: CtaFlights,
) -> CtaTimelines:
    return CtaTimelines(launches, ctas, warps, queues, lambda: (visits, flights))


def _without_host(part: CtaTimelines) -> CtaTimelines:
    launches = [replace(each, issued=-1) for each in part.launches]
    return CtaTimelines(launches, part.ctas, part.warps, part.queues, lambda: part._columns)


def _joined_columns(
    parts: Sequence[CtaTimelines], first_warps: Sequence[int], names: list[str]
) -> tuple[CtaVisits, CtaFlights]:
    visits, flights = [], []
    for part, first in zip(parts, first_warps):
        v, f = part.visits, part.flights
        queue = np.array([names.index(name) for name in part.queues], np.int32)[f.queue]
        visits.append((v.warp + first, v.site, v.begin, v.end))
        flights.append((queue, f.issuer + first, f.waiter + first, f.site, f.waited_at,
                        f.issued, f.wait, f.retired))  # fmt: skip
    return (
        CtaVisits.typed(*map(np.concatenate, zip(*visits))),
        CtaFlights.typed(*map(np.concatenate, zip(*flights))),
    )
