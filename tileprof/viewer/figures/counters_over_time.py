"""Hardware counters over time as a figure: a curve for each counter, one above the other.

In: a profile with counters over time, and which of them.  Out: a plotly figure over ms since the
first sample; colours are mid tones on nothing, so they are seen on light and on dark pages.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tileprof.errors import UsageError, from_extra
from tileprof.profile import Profile
from tileprof.profile.units import format_value
from tileprof.viewer.series import SeriesView, series_views, shown_columns

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_POINTS = 2000
"""Largest number of points of a curve; more rows are averaged."""
_HEIGHT = 110
"""Pixels of a curve."""
_LINE, _TEXT, _GRID = "#4c78a8", "#8a8a8a", "rgba(128, 128, 128, 0.25)"


def counters_over_time(
    profile: Profile, metrics: Sequence[str] = (), device: str | None = None
) -> Figure:
    """Plot one device's counters over time; shares from 0 to 1, others from 0 to their most.

    `metrics` are names of counters (none: all), `device` is as kernels name it (None: the first
    that was sampled).  UsageError tells what there is.  MissingDependencyError where plotly is not
    installed.
    """
    with from_extra("plotly"):
        from plotly.subplots import make_subplots

    view = _of_device(series_views(profile), device)
    columns = shown_columns(view, metrics)
    shown = [view.series.metrics[column] for column in columns]
    titles = [html.escape(f"{m.name} ({m.unit})" if m.unit != "1" else m.name) for m in shown]
    figure = make_subplots(rows=len(columns), shared_xaxes=True, subplot_titles=titles)
    for row, (column, metric) in enumerate(zip(columns, shown), 1):
        x, y = _curve(view, column)
        line = {"color": _LINE, "width": 1, "shape": "hv"}
        figure.add_scatter(x=x, y=y, row=row, col=1, mode="lines", line=line, name=metric.name)
        ends = (0, 1) if metric.unit == "share" else (0, None)
        figure.update_yaxes(range=ends, gridcolor=_GRID, row=row, col=1)
    figure.update_xaxes(gridcolor=_GRID)
    figure.update_xaxes(title_text="ms", row=len(columns), col=1)
    interval = format_value(view.series.interval, "ns")
    figure.update_layout(
        title={
            "text": html.escape(f"{view.series.device}, every {interval}"),
            "font": {"size": 14},
        },
        template="none",
        height=120 + _HEIGHT * len(columns),
        showlegend=False,
        font={"color": _TEXT},
        paper_bgcolor="rgba(0, 0, 0, 0)",
        plot_bgcolor="rgba(0, 0, 0, 0)",
    )
    return figure


def _of_device(views: list[SeriesView], device: str | None) -> SeriesView:
    for view in views:
        if device in (None, view.series.device):
            return view
    known = ", ".join(dict.fromkeys(view.series.device for view in views))
    raise UsageError(f"no counters of `{device}` were sampled", hint=f"There are those of {known}.")


def _curve(view: SeriesView, column: int) -> tuple[list[float], list[float | None]]:
    """Times in ms and values; None where nothing was sampled, so that the curve has a gap."""
    parts = min(len(view.series), _POINTS)
    means = view.means(column, parts)
    edges = np.linspace(0, view.length / 1e6, parts + 1)[:-1]
    return edges.tolist(), [float(v) if np.isfinite(v) else None for v in means]
