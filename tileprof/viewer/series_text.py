"""Hardware counters over time in a terminal, and as data.

In: a profile with series.  Out: text, for each device a row for each metric with a character for
each part of its time, and what ran when it was highest and lowest; or JSON.

    cuda:0  2.50 s, every 200 µs

    mean   least  most    over time
    71 %   0      93 %    ▁▁▆▇▇▇▇▁▁▃▃  dram_use
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from tileprof.profile import Profile, SeriesMetric
from tileprof.profile.jsonform import finite
from tileprof.profile.units import format_value
from tileprof.viewer.grid import MINIMUM_WIDTH, Field, Label, arrange, wrap
from tileprof.viewer.options import ViewOptions
from tileprof.viewer.series import SeriesView, Stretch, series_views, shown_columns
from tileprof.viewer.text import ASCII, UNICODE, Glyphs, clean, encodable, fit, paint, shorten

_LEVELS = {UNICODE: " ▁▂▃▄▅▆▇█", ASCII: " .:-=+*#%"}
_MOST_RAN = 2
"""Largest number of works shown for a stretch."""
_NARROWEST, _WIDEST = 10, 100
"""Characters of a row's time."""


def render_counters(
    profile: Profile, options: ViewOptions, width: int, color: bool, unicode: bool
) -> str:
    """Return all series in lines of at most `width` cells; `-m` leaves only those metrics."""
    glyphs, width = UNICODE if unicode else ASCII, max(width, MINIMUM_WIDTH)
    parts = [_device(view, options, width, color, glyphs) for view in series_views(profile)]
    return "\n".join([*parts, *_told(profile, width, color, glyphs)])


def _told(profile: Profile, width: int, color: bool, glyphs: Glyphs) -> list[str]:
    """Return how it was sampled, what was lost, and why it ended; [] where that is not known."""
    known = profile.tables.provenance
    found = [known[key] for key in ("counters over time", "counters not sampled") if key in known]
    lines = [line for text in found for line in wrap(clean(text, glyphs), width, color)]
    return ["\n".join(lines) + "\n"] if lines else []


def _device(
    view: SeriesView, options: ViewOptions, width: int, color: bool, glyphs: Glyphs
) -> str:  # fmt: skip
    series, columns = view.series, shown_columns(view, options.metrics)
    length = clean(format_value(view.length, "ns"), glyphs)
    interval = clean(format_value(series.interval, "ns"), glyphs)
    device = clean(series.device, glyphs)
    lines = [paint(f"{device}  {length}, every {interval}", "1", color), ""]
    metrics = [series.metrics[column] for column in columns]
    numbers = np.array([view.numbers(column) for column in columns])
    titles = ("mean", "least", "most")
    fields = [
        Field(title, [_value(value, metric, glyphs) for value, metric in zip(values, metrics)], 0)
        for title, values in zip(titles, numbers.T.tolist())
    ]
    names = max(len(metric.name) for metric in metrics)
    taken = sum(field.width + 2 for field in fields) + min(names, width // 3) + 2
    room = min(max(width - taken, _NARROWEST), _WIDEST)
    drawn = [_drawn(view, column, room, glyphs) for column in columns]
    grid = arrange([*fields, Field("over time", drawn, 0, left=True)], width, glyphs, color)
    lines.append(grid.header(""))
    for row, metric in enumerate(metrics):
        lines.append(grid.row(row, Label(clean(metric.name, glyphs))))
    lines.append("")
    for column, metric in zip(columns, metrics):
        lines += _extremes(view, column, metric, width, glyphs)
    return "\n".join(lines) + "\n"


def _value(value: float, metric: SeriesMetric, glyphs: Glyphs) -> str:
    return clean(format_value(value, metric.unit), glyphs)


def _drawn(view: SeriesView, column: int, room: int, glyphs: Glyphs) -> str:
    """A character for each part of the time, as high as its mean; of shares of 1, else the most."""
    levels = _LEVELS[glyphs]
    means = np.nan_to_num(view.means(column, room), nan=0.0)
    share = view.series.metrics[column].unit == "share"
    most = 1.0 if share else float(means.max(initial=0.0)) or 1.0
    heights = np.ceil(means / most * (len(levels) - 1))
    return "".join(levels[min(max(int(each), 0), len(levels) - 1)] for each in heights)


def _extremes(
    view: SeriesView, column: int, metric: SeriesMetric, width: int, glyphs: Glyphs
) -> list[str]:
    lines = []
    for what, stretch in (("most", view.highest(column)), ("least", view.lowest(column))):
        if stretch is None:
            continue
        value = _value(stretch.mean, metric, glyphs)
        length = format_value(stretch.end - stretch.begin, "ns")
        when = f"{length} from {format_value(stretch.begin, 'ns') or '0'} on"
        told = f"{metric.name}: {what} {value} ({when}){_ran(stretch, glyphs)}"
        lines.append(fit(clean(told, glyphs), width, glyphs))
    return lines


def _ran(stretch: Stretch, glyphs: Glyphs) -> str:
    told = [
        f"{shorten(each.name, 40, glyphs)} {each.share:.0%}"
        + (f" in {shorten(each.scope, 24, glyphs)}" if each.scope else "")
        for each in stretch.ran[:_MOST_RAN]
    ]
    return f": {', '.join(told)}" if told else ""


def counters_json(profile: Profile, options: ViewOptions) -> str:
    """Return all series as one line of JSON; times in ns on the timeline's clock, null for none.

    `{"series": [{"device", "interval", "start": […], "duration": […], "metrics": [{"name", "unit",
    "mean", "least", "most", "values": […], "highest": {"begin", "end", "mean", "ran": [{"name",
    "scope", "share"}]}, "lowest"}]}]}`; `begin` and `end` are ns since the first `start`.
    """
    views = series_views(profile)
    found = [_document(view, shown_columns(view, options.metrics)) for view in views]
    return json.dumps({"series": found}) + "\n"


def _document(view: SeriesView, columns: list[int]) -> dict[str, Any]:
    series = view.series
    return {
        "device": series.device,
        "interval": series.interval,
        "start": series.start.tolist(),
        "duration": series.duration.tolist(),
        "metrics": [_metric(view, column) for column in columns],
    }


def _metric(view: SeriesView, column: int) -> dict[str, Any]:
    metric, values = view.series.metrics[column], view.series.values[column].tolist()
    mean, least, most = (finite(value) for value in view.numbers(column))
    return {
        "name": metric.name,
        "unit": metric.unit,
        "mean": mean,
        "least": least,
        "most": most,
        "values": [finite(value) for value in values],
        "highest": _stretch(view.highest(column)),
        "lowest": _stretch(view.lowest(column)),
    }


def _stretch(stretch: Stretch | None) -> dict[str, Any] | None:
    if stretch is None:
        return None
    ran = [
        {"name": encodable(each.name), "scope": encodable(each.scope), "share": each.share}
        for each in stretch.ran
    ]
    return {"begin": stretch.begin, "end": stretch.end, "mean": stretch.mean, "ran": ran}
