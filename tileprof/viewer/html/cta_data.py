"""Timelines of the warps of single CTAs, as columns of JSON values.

In: a profile with timelines of CTAs.  Out: the sites of each kernel, and for each CTA rows of bars:
thin ones for asynchronous work under way, then one for each warp, of its innermost sites.
Times are ns since the CTA began.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tileprof.profile import Profile
from tileprof.viewer.ctas.ctas import Ctas, FlightRow
from tileprof.viewer.html.bars import Bars, bars_of
from tileprof.viewer.html.code_data import CodeData
from tileprof.viewer.text import encodable

_MOST_BARS = 4000
"""Largest number of bars of a CTA."""
_MOST_OF_ALL = 30_000
"""Largest number of bars on a page: 0.6 MB.  Further CTAs are left out."""
_COLORS = {"work": 8, "wait": 4}
"""Number of colours for work, and for waits."""


def ctas_of(profile: Profile, code: CodeData, most: int = _MOST_OF_ALL) -> dict[str, Any]:
    """Return CTAs by launch, as far as there is room; each launch's median comes first."""
    ctas = Ctas(profile)
    made: dict[int, dict[str, Any]] = {}
    sites = _Sites(ctas, code)
    by_use = sorted(
        range(len(ctas.held.ctas)), key=lambda at: "median" not in ctas.held.ctas[at].chosen
    )
    for at in by_use:
        document = _Cta(ctas, at, sites).document()
        most -= len(document["gap"])
        if most < 0:
            break
        made[at] = document
    return {
        "kernels": sites.kernels(),
        "ctas": [made[at] for at in sorted(made)],
        "left": len(by_use) - len(made),
    }


class _Sites:
    """The sites of each kernel that bars refer to, by their places."""

    def __init__(self, ctas: Ctas, code: CodeData) -> None:
        self._ctas, self._code = ctas, code
        self._found: dict[int, dict[int, int]] = {}
        self._first: dict[int, int] = {}

    def kernel(self, cta: int) -> int:
        """Return the place of a CTA's kernel."""
        kernel = self._ctas.launch_of(cta).kernel
        self._first.setdefault(kernel, cta)
        self._found.setdefault(kernel, {})
        return list(self._found).index(kernel)

    def place(self, cta: int, site: int) -> int:
        """Return the place of a site among those of its kernel."""
        found = self._found[self._ctas.launch_of(cta).kernel]
        return found.setdefault(site, len(found))

    def kernels(self) -> list[dict[str, Any]]:
        """Return name, unit among the code, and sites of each kernel."""
        tables = self._ctas.profile.tables
        return [
            {
                "name": encodable(tables.kernels[kernel].name),
                "unit": self._code.unit_of(tables.kernels[kernel].name),
                "sites": self._told(self._first[kernel], found),
            }
            for kernel, found in self._found.items()
        ]

    def _told(self, cta: int, found: dict[int, int]) -> list[dict[str, Any]]:
        colors = dict(self._colors(cta, sorted(found)))
        return [
            {
                "name": encodable(self._ctas.site(cta, site).name),
                "path": self._ctas.path(cta, site),
                "at": self._at(cta, site),
                "color": colors[site],
            }
            for site in found
        ]

    def _at(self, cta: int, site: int) -> list[Any] | None:
        """Return a site's place for findings: file, line, index in the texts of the page."""
        place = self._ctas.site(cta, site).location
        if place is None or not place.line:
            return None
        return [encodable(place.file), place.line, self._code.file_of(place.file)]

    def _colors(self, cta: int, sites: list[int]) -> Iterator[tuple[int, str]]:
        """Yield the name of each site's colour."""
        for site, kind, number in self._ctas.kinds(cta, sites):
            yield site, f"{kind}-{number % _COLORS[kind]}" if kind in _COLORS else kind


class _Cta:
    """Rows and spans of one CTA: flights first, then its warps."""

    def __init__(self, ctas: Ctas, cta: int, sites: _Sites) -> None:
        self._ctas, self._cta, self._sites = ctas, cta, sites
        self._kernel = sites.kernel(cta)
        self._rows: list[list[Any]] = []
        self._spans: list[tuple[int, int, int, int]] = []
        self._flights: list[int] = []
        self._times: dict[int, int] = defaultdict(int)
        self._row_of: dict[int, int] = {}
        for row in ctas.flight_rows(cta):
            self._fly(row)
        for warp in ctas.warps(cta):
            self._work(warp)

    def _fly(self, row: FlightRow) -> None:
        held, number = self._ctas.held.flights, self._ctas.held.warps[row.warp].warp
        for at in row.flights:
            self._span(int(held.issued[at]), int(held.retired[at]), int(held.site[at]))
        self._flights += row.flights
        self._rows.append(["" if row.lane else f"{row.queue}, by warp {number}", True, []])

    def _work(self, warp: int) -> None:
        visits = list(self._ctas.innermost(warp))
        for begin, end, site in visits:
            self._span(begin, end, site)
            self._times[self._spans[-1][3]] += end - begin
        begun = visits[0][0] if visits else self._ctas.held.warps[warp].end
        self._row_of[warp] = len(self._rows)
        unknown = _unknown(self._ctas, self._cta, warp, begun)
        self._rows.append([self._ctas.warp_name(warp), False, unknown])

    def _span(self, begin: int, end: int, site: int) -> None:
        self._spans.append((len(self._rows), begin, end, self._sites.place(self._cta, site)))

    def document(self) -> dict[str, Any]:
        """Return JSON values; `times` are for the warps' bars, `flights` for those in flight."""
        told = self._ctas.held.ctas[self._cta]
        row, begin, end, site = zip(*self._spans) if self._spans else [()] * 4
        bars = bars_of(row, begin, end, site, _MOST_BARS)
        return {
            "launch": self._ctas.launch_name(told.launch),
            "name": f"{self._ctas.cta_name(self._cta)}, {encodable(self._ctas.chosen(self._cta))}",
            "median": "median" in told.chosen,
            "kernel": self._kernel,
            "whole": max(told.end - told.begin, 1),
            "rows": self._rows,
            "times": [[site, ns] for site, ns in self._times.items()],
            **bars.columns(len(self._rows)),
            "flights": list(self._waits(bars)),
        }

    def _waits(self, bars: Bars) -> Iterator[list[int]]:
        """Yield for each flight its bar, the site and row of who waited for it, and the ns."""
        held = self._ctas.held.flights
        for bar, span in enumerate(bars.source.tolist()):
            if not 0 <= span < len(self._flights):
                continue
            at = self._flights[span]
            site = self._sites.place(self._cta, int(held.waited_at[at]))
            waited = int(held.retired[at]) - max(int(held.wait[at]), int(held.issued[at]))
            yield [bar, site, self._row_of.get(int(held.waiter[at]), -1), waited]


def _unknown(ctas: Ctas, cta: int, warp: int, begun: int) -> list[list[int]]:
    """Return when nothing is known of a warp, because its records are lost."""
    told, held = ctas.held.warps[warp], ctas.held.ctas[cta]
    if told.missing == "end":
        return [[told.end, max(held.end - held.begin, told.end)]]
    return [[told.begin, begun]] if told.missing == "begin" else []
