"""The timeline of one CTA as a figure: a row for each warp, above them what was under way.

In: a profile with timelines of CTAs, and which of them.  Out: a plotly figure; colours are mid
tones on nothing, so they are seen on light and on dark pages.
"""

from __future__ import annotations

import html
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tileprof.errors import from_extra
from tileprof.profile import Profile
from tileprof.profile.units import format_value
from tileprof.viewer.ctas.ctas import Ctas

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_WORK = ("#4c78a8", "#54a24b", "#b279a2", "#2fa5a0", "#9d755d", "#7f6bd3", "#8a9a2b", "#5f9ed1")
_WAITS = ("#e45756", "#f58518", "#d9b12a", "#ee7f92")
_COLORS = {"work": _WORK, "wait": _WAITS, "around": ("#8c8c8c",)}
_TEXT = "#8a8a8a"
_GRID = "rgba(128, 128, 128, 0.25)"
_FLIGHT_HEIGHT, _WARP_HEIGHT = 0.35, 0.8


def cta_timeline(profile: Profile, kernel: str | None = None, cta: int | None = None) -> Figure:
    """Plot the activity of one CTA's warps, over µs since it began; colours are sites.

    `kernel` is a name or a regular expression for one (None: the first that has a timeline), `cta`
    the number of the block (None: the one of median length).  UsageError tells what there is.
    """
    ctas = Ctas(profile)
    return figure_of(ctas, ctas.pick(kernel, cta))


def figure_of(ctas: Ctas, cta: int) -> Figure:
    """The figure of one CTA by its place; MissingDependencyError where plotly is not installed."""
    with from_extra("plotly"):
        from plotly.graph_objects import Figure

    drawing = _Drawing(ctas, cta)
    told = ctas.held.ctas[cta]
    length = format_value(told.end - told.begin, "ns")
    launch = ctas.launch_name(told.launch)
    title = f"{launch}: {ctas.cta_name(cta)}, {ctas.chosen(cta)}, {length}"
    figure = Figure(drawing.traces())
    figure.update_layout(
        title={"text": html.escape(title), "font": {"size": 14}},
        template="none",
        barmode="overlay",
        bargap=0,
        height=160 + round(34 * drawing.top),
        font={"color": _TEXT},
        paper_bgcolor="rgba(0, 0, 0, 0)",
        plot_bgcolor="rgba(0, 0, 0, 0)",
        legend={"traceorder": "normal"},
        margin={"l": 10, "r": 10, "t": 50, "b": 40},
        dragmode="zoom",
    )
    axis = {"gridcolor": _GRID, "zeroline": False}
    figure.update_xaxes(title="µs since the CTA began", **axis)
    ticks = {"tickmode": "array", "tickvals": drawing.centers, "ticktext": drawing.names}
    limits = {"range": [drawing.top, 0], "fixedrange": True}
    figure.update_yaxes(automargin=True, showgrid=False, zeroline=False, **ticks, **limits)
    return figure


@dataclass(slots=True)
class _Bars:
    """The bars of one site, in warps or under way."""

    begin: list[float] = field(default_factory=list)
    length: list[float] = field(default_factory=list)
    row: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def add(self, begin: int, end: int, row: float, said: str) -> None:
        """Add one; times in ns."""
        self.begin.append(begin / 1000)
        self.length.append((end - begin) / 1000)
        self.row.append(row)
        self.said.append(said)


class _Drawing:
    """One CTA: rows from above, thin ones for flights."""

    def __init__(self, ctas: Ctas, cta: int) -> None:
        self.ctas, self.cta = ctas, cta
        self.names: list[str] = []
        self.centers: list[float] = []
        self.top = 0.0
        self.sites: dict[int, _Bars] = defaultdict(_Bars)
        self.flights: dict[int, _Bars] = defaultdict(_Bars)
        for row in ctas.flight_rows(cta):
            warp = ctas.held.warps[row.warp].warp
            self._row("" if row.lane else f"{row.queue}, by warp {warp}", _FLIGHT_HEIGHT + 0.1)
            for at in row.flights:
                self._flight(at)
        for place in ctas.warps(cta):
            self._row(ctas.warp_name(place), 1.0)
            for begin, end, site in ctas.innermost(place):
                self.sites[site].add(begin, end, self.centers[-1], ctas.warp_name(place))

    def _row(self, name: str, height: float) -> None:
        self.names.append(html.escape(name))
        self.centers.append(round(self.top + height / 2, 3))
        self.top = round(self.top + height, 3)

    def _flight(self, at: int) -> None:
        held = self.ctas.held.flights
        waited = int(held.retired[at]) - max(int(held.wait[at]), int(held.issued[at]))
        ended = self.ctas.path(self.cta, int(held.waited_at[at]))
        said = f"until {ended} of {self.ctas.warp_name(int(held.waiter[at]))}"
        said += f", which waited {format_value(waited, 'ns')}"
        times = int(held.issued[at]), int(held.retired[at])
        self.flights[int(held.site[at])].add(*times, self.centers[-1], said)

    def traces(self) -> list[Any]:
        """The bars, in the order of the sites; those under way have the colour of their start."""
        order = sorted(self.sites.keys() | self.flights.keys())
        kinds = self.ctas.kinds(self.cta, order)
        colors = {at: _COLORS[kind][n % len(_COLORS[kind])] for at, kind, n in kinds}
        made = []
        for site in order:
            for bars, height, under_way in (
                (self.sites.get(site), _WARP_HEIGHT, False),
                (self.flights.get(site), _FLIGHT_HEIGHT, True),
            ):
                if bars is not None:
                    made.append(self._trace(site, bars, colors[site], height, under_way))
        return made

    def _trace(self, site: int, bars: _Bars, color: str, height: float, under_way: bool) -> Any:
        from plotly.graph_objects import Bar

        path = html.escape(self.ctas.path(self.cta, site))
        name = html.escape(self.ctas.site(self.cta, site).name)
        line = html.escape(self.ctas.line(self.cta, site))
        where = f"<br>{line}" if line else ""
        return Bar(
            orientation="h",
            base=bars.begin,
            x=bars.length,
            y=bars.row,
            width=height,
            name=f"{name} (under way)" if under_way else name,
            legendgroup=str(site),
            showlegend=not under_way or site not in self.sites,
            marker={"color": color, "line": {"width": 0}, "opacity": 0.6 if under_way else 1.0},
            # Not `x`: with a base, that is where a bar ends.
            customdata=[
                [html.escape(s), b, n] for s, b, n in zip(bars.said, bars.begin, bars.length)
            ],
            hovertemplate=(
                f"<b>{path}</b>{where}<br>%{{customdata[0]}}"
                "<br>%{customdata[2]:.3f} µs, from %{customdata[1]:.3f} µs on<extra></extra>"
            ),
        )
