"""The CTAs whose timelines a profile holds, as exports, the figure and the terminal show them.

In: a profile.  Out: what launches, CTAs, warps and sites are called, the rows of each CTA, and when
each began on the axis that all share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tileprof.errors import UsageError
from tileprof.once import cached_property
from tileprof.profile import Cta, CtaLaunch, CtaTimelines, Profile, SiteInfo
from tileprof.profile.transform.operations import regular
from tileprof.viewer.text import encodable


def has_ctas(profile: Profile) -> bool:
    """Return whether timelines of CTAs were recorded."""
    return bool(profile.tables.ctas.ctas)


@dataclass(frozen=True, slots=True)
class FlightRow:
    """Asynchronous work of one queue in one CTA that does not overlap."""

    queue: str
    warp: int
    """Index of the warp that started the work."""
    lane: int
    """Lane number from 0; work that overlaps is spread over several lanes."""
    flights: tuple[int, ...]
    """Places among all flights, by the time of their start."""


class Ctas:
    """The CTAs of a profile."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.held: CtaTimelines = profile.tables.ctas

    def launch_of(self, cta: int) -> CtaLaunch:
        """Return the launch of a CTA."""
        return self.held.launches[self.held.ctas[cta].launch]

    def launch_name(self, launch: int) -> str:
        """Return `matmul, launch 2 on cuda:0`; the function too where the kernel has several."""
        told = self.held.launches[launch]
        beside = [e for e in self.held.launches if e.kernel == told.kernel]
        several = len({each.function for each in beside}) > 1
        name = self.profile.tables.kernels[told.kernel].name
        function = f" ({told.function})" if several else ""
        return encodable(f"{name}{function}, launch {told.number + 1} on {told.device}")

    def cta_name(self, cta: int) -> str:
        """Return `SM 17 CTA 132`."""
        told = self.held.ctas[cta]
        return f"SM {told.sm} CTA {told.block}"

    def warp_name(self, warp: int) -> str:
        """Return `warp 4 (producer)`."""
        told = self.held.warps[warp]
        return f"warp {told.warp} ({told.role})" if told.role else f"warp {told.warp}"

    def chosen(self, cta: int) -> str:
        """Return why a CTA is there: `the median of 8`."""
        told, count = self.held.ctas[cta], self.launch_of(cta).recorded
        reason = " and ".join(told.chosen.split(", ")) or "one"
        return f"the {reason} of {count}" if told.chosen else f"one of {count}"

    def warps(self, cta: int) -> list[int]:
        """Return the places of a CTA's warps, producers first."""
        return [at for at, warp in enumerate(self.held.warps) if warp.cta == cta]

    def visits(self, warp: int) -> range:
        """Return the places of a warp's visits."""
        column = self.held.visits.warp
        first, end = np.searchsorted(column, [warp, warp + 1], "left").tolist()
        return range(first, end)

    def site(self, cta: int, site: int) -> SiteInfo:
        """Return a site; one of a number where the kernel does not know it."""
        known = self._sites[self.launch_of(cta).kernel].get(site)
        return known if known is not None else SiteInfo(site, f"site {site}", "op")

    @cached_property
    def _sites(self) -> list[dict[int, SiteInfo]]:
        kernels = self.profile.tables.kernels
        return [{site.id: site for site in kernel.sites} for kernel in kernels]

    def path(self, cta: int, site: int) -> str:
        """Return the names from the outermost site in: `consumer / loop k / gemm`."""
        told = self.site(cta, site)
        names = [told.name]
        while told.parent is not None:
            told = self.site(cta, told.parent)
            names.append(told.name)
        return encodable(" / ".join(reversed(names)))

    def line(self, cta: int, site: int) -> str:
        """Return `gemm.py:12`, or nothing where a site has no place."""
        place = self.site(cta, site).location
        if place is None:
            return ""
        return encodable(f"{place.file.replace(chr(92), '/').rpartition('/')[2]}:{place.line}")

    def kinds(self, cta: int, sites: Iterable[int]) -> Iterator[tuple[int, str, int]]:
        """Yield each site as `work`, `wait` or `around` these, with its number among its kind.

        So waits can be warm, work cold, and what is around them grey.
        """
        seen = Counter[str]()
        for site in sites:
            told = self.site(cta, site)
            waits = told.name.startswith("wait")
            kind = "wait" if waits else "around" if told.kind == "stage" else "work"
            yield site, kind, seen[kind]
            seen[kind] += 1

    def flight_rows(self, cta: int) -> list[FlightRow]:
        """Return the rows of a CTA's asynchronous work: queue by queue, warp by warp."""
        flights, warps = self.held.flights, self.warps(cta)
        mine = np.flatnonzero(np.isin(flights.issuer, warps))
        rows = []
        for queue, name in enumerate(self.held.queues):
            for warp in warps:
                found = mine[(flights.queue[mine] == queue) & (flights.issuer[mine] == warp)]
                found = found[np.argsort(flights.issued[found], kind="stable")]
                lanes = _lanes(flights.issued[found].tolist(), flights.retired[found].tolist())
                for lane in range(max(lanes, default=-1) + 1):
                    on = tuple(f for f, at in zip(found.tolist(), lanes) if at == lane)
                    rows.append(FlightRow(encodable(name), warp, lane, on))
        return rows

    def innermost(self, warp: int) -> Iterator[tuple[int, int, int]]:
        """Yield where a warp was when: begin, end and its innermost site, by time."""
        visits = self.held.visits
        opened: list[tuple[int, int]] = []
        now = 0
        for at in self.visits(warp):
            begin, end = int(visits.begin[at]), int(visits.end[at])
            while opened and opened[-1][0] <= begin:
                until, site = opened.pop()
                if until > now:
                    yield now, until, site
                now = max(now, until)
            if opened and begin > now:
                yield now, begin, opened[-1][1]
            now = max(now, begin)
            opened.append((end, int(visits.site[at])))
        while opened:
            until, site = opened.pop()
            if until > now:
                yield now, until, site
            now = max(now, until)

    def pick(self, kernel: str | None = None, cta: int | None = None) -> int:
        """Return a CTA of the first kernel that matches: that of a number, else the median.

        `kernel` is a name or a regular expression for one.  UsageError lists what there is.
        """
        if not self.held.ctas:
            raise UsageError(
                "the profile has no timelines of CTAs",
                hint="Record with `tileprof run --instrument stages` (or ops) on a GPU.",
            )
        launch = self._launch(kernel)
        mine = [at for at, each in enumerate(self.held.ctas) if each.launch == launch]
        if cta is None:
            return min(mine, key=lambda at: "median" not in self.held.ctas[at].chosen)
        found = [at for at in mine if self.held.ctas[at].block == cta]
        if not found:
            raise UsageError(
                f"CTA {cta} of {self.launch_name(launch)} was not kept",
                hint=f"There are: {_listed(self.held.ctas[at] for at in mine)}.",
            )
        return found[0]

    def _launch(self, kernel: str | None) -> int:
        names = [self.profile.tables.kernels[e.kernel].name for e in self.held.launches]
        if kernel is None:
            return 0
        if kernel in names:
            return names.index(kernel)
        pattern = regular(kernel)
        found = [at for at, name in enumerate(names) if pattern.search(name)]
        if not found:
            raise UsageError(
                f"there is no timeline of a kernel `{kernel}`",
                hint=f"There are those of: {', '.join(dict.fromkeys(names))}.",
            )
        return found[0]


def _listed(ctas: Iterator[Cta]) -> str:
    return ", ".join(f"{each.block} ({each.chosen})" if each.chosen else f"{each.block}"
                     for each in ctas)  # fmt: skip


def _lanes(begin: Sequence[int], end: Sequence[int]) -> list[int]:
    """Return for each span, in order of begin, the first lane in which it overlaps no other."""
    free: list[int] = []
    lanes = []
    for start, stop in zip(begin, end):
        lane = next((at for at, until in enumerate(free) if until <= start), len(free))
        if lane == len(free):
            free.append(0)
        free[lane] = stop
        lanes.append(lane)
    return lanes
