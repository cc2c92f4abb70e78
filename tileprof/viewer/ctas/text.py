"""The timeline of one CTA in a terminal: a row for each warp, a character for each slice of time.

In: a profile with timelines of CTAs, and which of them.  Out: text.

    SM 17 CTA 132, the median of 8: 1.10 µs, 20.0 ns a character

    ring of a, by warp 4  |  11112222111       |
    warp 4 (producer)     |pLLppLLpppp         |
    warp 0 (consumer)     |aaaaaaaaGGgggggg    |

A character is where the warp was for most of the slice: upper case at work, lower case waiting. A
digit is how much asynchronous work was under way at most.
"""

from __future__ import annotations

import string
from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.ctas.ctas import Ctas
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean, paint, shorten, width_of

_MOST_SITES = 40
"""Largest number of sites in a legend."""
_STYLES = ("32", "36", "34", "35", "92", "96", "94", "95")
_WAITS = "33"
"""Colours: of work, of waits."""
_WAIT = "wait for "


def render_cta(
    profile: Profile,
    kernel: str | None = None,
    cta: int | None = None,
    span: tuple[float, float] | None = None,
    *,
    width: int = 80,
    color: bool = False,
    unicode: bool = True,
) -> str:
    """Return the timeline of a CTA, which `Ctas.pick` chooses, in lines of at most `width` cells.

    `span`: only what is between these µs since it began; UsageError where that is nothing.
    """
    ctas, glyphs = Ctas(profile), UNICODE if unicode else ASCII
    chosen = ctas.pick(kernel, cta)
    return _Drawing(ctas, chosen, span, max(width, 40), color, glyphs).text()


class _Drawing:
    """Text drawing of one CTA."""

    def __init__(
        self,
        ctas: Ctas,
        cta: int,
        span: tuple[float, float] | None,
        width: int,
        color: bool,
        glyphs: Glyphs,
    ) -> None:
        self.ctas, self.cta, self.color, self.glyphs = ctas, cta, color, glyphs
        self.width = width
        told = ctas.held.ctas[cta]
        self.whole = max(told.end - told.begin, 1)
        self.begin, self.length = _shown(span, self.whole) if span else (0, self._known())
        self.segments = {w: list(ctas.innermost(w)) for w in ctas.warps(cta)}
        self.times: dict[int, int] = defaultdict(int)
        for begin, end, site in (each for s in self.segments.values() for each in s):
            shown = min(end, self.begin + self.length) - max(begin, self.begin)
            self.times[site] += max(shown, 0)
        self.letters = _letters([(s, ctas.site(cta, s).name) for s in sorted(self.times)])
        flights = self._flights()
        names = [*flights, *(ctas.warp_name(w) for w in self.segments)]
        self.margin = min(max(map(width_of, names), default=0), width // 3)
        self.cells = width - self.margin - 3
        self.rows = [(name, self._counts(spans)) for name, spans in flights.items()]
        self.rows += [(ctas.warp_name(w), self._places(w)) for w in self.segments]

    def text(self) -> str:
        """Return the whole drawing as text."""
        slice_ns = self.length / self.cells
        head = (
            f"{self.ctas.cta_name(self.cta)}, {self.ctas.chosen(self.cta)}:"
            f" {self._part()}{format_value(self.whole, 'ns')},"
            f" {format_value(slice_ns, 'ns')} a character"
        )
        launch = self.ctas.held.ctas[self.cta].launch
        lines = [self._fit(self.ctas.launch_name(launch)), self._fit(head), ""]
        for name, cells in self.rows:
            shown = shorten(clean(name, self.glyphs), self.margin, self.glyphs)
            lines.append(f"{shown}{' ' * (self.margin - width_of(shown))} |{self._painted(cells)}|")
        return "\n".join([*lines, "", *self._legend(), ""])

    def _known(self) -> int:
        """Return the CTA's length, or the time up to which its warps have records, in ns."""
        warps = [self.ctas.held.warps[at] for at in self.ctas.warps(self.cta)]
        if all(warp.missing == "end" for warp in warps):
            return max((warp.end for warp in warps), default=1) or 1
        return self.whole

    def _part(self) -> str:
        """Return which part of the CTA is shown; '' where all of it is."""
        if self.length == self.whole:
            return ""
        shown = format_value(self.length, "ns")
        if not self.begin:
            return f"the first {shown} of "
        return f"{shown} from {format_value(self.begin, 'ns')} on of "

    def _fit(self, text: str) -> str:
        return shorten(clean(text, self.glyphs), self.width, self.glyphs)

    def _flights(self) -> dict[str, list[tuple[int, int]]]:
        """Return begins and ends of asynchronous work, by queue and warp."""
        held, found = self.ctas.held.flights, defaultdict[str, list[tuple[int, int]]](list)
        for row in self.ctas.flight_rows(self.cta):
            name = f"{row.queue}, by warp {self.ctas.held.warps[row.warp].warp}"
            found[name] += [(int(held.issued[f]), int(held.retired[f])) for f in row.flights]
        return found

    def _cells(self, begin: int, end: int) -> Iterable[tuple[int, float]]:
        """Yield the cells that a span touches, and for how many ns."""
        size = self.length / self.cells
        begin, end = max(begin - self.begin, 0), min(end - self.begin, self.length)
        for cell in range(int(begin / size), min(int(end / size) + 1, self.cells)):
            yield cell, min(end, (cell + 1) * size) - max(begin, cell * size)

    def _places(self, warp: int) -> str:
        spent: list[dict[int, float]] = [defaultdict(float) for _ in range(self.cells)]
        for begin, end, site in self.segments[warp]:
            for cell, ns in self._cells(begin, end):
                spent[cell][site] += ns
        told = self.ctas.held.warps[warp]
        size = self.length / self.cells
        known = [self.letters[max(s, key=s.__getitem__)] if any(s.values()) else " " for s in spent]
        first = self.segments[warp][0][0] if self.segments[warp] else told.end
        for cell in range(self.cells):
            middle = self.begin + (cell + 0.5) * size
            late = told.missing == "end" and middle > told.end
            early = told.missing == "begin" and told.begin < middle < first
            known[cell] = "?" if late or early else known[cell]
        return "".join(known)

    def _counts(self, spans: list[tuple[int, int]]) -> str:
        changes = sorted([(b, 1) for b, _ in spans] + [(e, -1) for _, e in spans])
        most, running = [0] * self.cells, 0
        for (at, change), (until, _) in zip(changes, [*changes[1:], changes[-1]]):
            running += change
            for cell, ns in self._cells(at, until):
                most[cell] = max(most[cell], running) if ns > 0 else most[cell]
        return "".join(" " if not n else str(n) if n < 10 else "+" for n in most)

    def _painted(self, cells: str) -> str:
        if not self.color:
            return cells
        runs = ((letter, "".join(run)) for letter, run in groupby(cells))
        return "".join(paint(run, self._style(letter), True) for letter, run in runs)

    def _style(self, letter: str) -> str:
        if letter in string.digits + "+?":
            return "2"
        order = [c for c in self.letters.values() if not c.islower()]
        return _STYLES[order.index(letter) % len(_STYLES)] if letter in order else _WAITS

    def _legend(self) -> list[str]:
        """Return the meaning of each character, the sites with the most time first."""
        whole = max(sum(self.times.values()), 1)
        order = sorted((s for s, ns in self.times.items() if ns), key=lambda s: -self.times[s])
        lines = []
        for site in order[:_MOST_SITES]:
            letter, share = self.letters[site], format_percent(self.times[site] / whole)
            told = f"{share:>5} %  {self.ctas.path(self.cta, site)}"
            told += f"  {line}" if (line := self.ctas.line(self.cta, site)) else ""
            rest = shorten(clean(told, self.glyphs), self.width - 2, self.glyphs)
            lines.append(f"{paint(letter, self._style(letter), self.color)} {rest}")
        if (more := len(order) - _MOST_SITES) > 0:
            lines.append(self._fit(f"  and {more} more"))
        return lines


def _shown(span: tuple[float, float], whole: int) -> tuple[int, int]:
    """Return begin and length of what is shown, in ns."""
    begin, end = round(span[0] * 1000), min(round(span[1] * 1000), whole)
    if not 0 <= begin < end:
        raise UsageError(
            f"of a CTA of {whole / 1000:,.3f} µs nothing is between {span[0]:g} and {span[1]:g} µs",
            hint="Give two times in µs since it began, the earlier one first.",
        )
    return begin, end - begin


def _letters(sites: list[tuple[int, str]]) -> dict[int, str]:
    """Return a character for each site: of its name where that is free, lower case for a wait."""
    free = list(string.ascii_uppercase), list(string.ascii_lowercase)
    made: dict[int, str] = {}
    for site, name in sites:
        waits = name.startswith(_WAIT.strip())
        told = name.removeprefix(_WAIT)
        wanted = told.lower() if waits else told.upper()
        left = free[waits]
        letter = next((c for c in wanted if c in left), left[0] if left else "*#"[waits])
        if letter in left:
            left.remove(letter)
        made[site] = letter
    return made
