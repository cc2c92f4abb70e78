"""Hardware counters over time as columns of JSON values: a curve for each counter.

In: a profile with series.  Out: for each series its curves, of a limited number of points: means
where there are more rows. Times are ns on the axis that the timeline of the program has too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tileprof.profile import Profile
from tileprof.viewer.series import SeriesView, Stretch, series_views
from tileprof.viewer.text import encodable

_MOST_POINTS = 2000
"""Largest number of points in a curve."""
_MOST_OF_ALL = 40_000
"""Largest number of points on a page: 0.5 MB."""
_MOST_RAN = 3
"""Largest number of works named for a stretch."""
_NOTES = ("counters over time", "counters not sampled")
"""Keys of the provenance that say how it was sampled, and what was lost."""


def counters_of(profile: Profile, origin: int) -> dict[str, Any]:
    """Return all series; `origin` is the 0 of the page's axis, on the clock of the timeline."""
    views = series_views(profile)
    curves = sum(len(view.series.metrics) for view in views)
    most = min(_MOST_POINTS, _MOST_OF_ALL // max(curves, 1))
    known = profile.tables.provenance
    return {
        "series": [_series(view, origin, max(most, 1)) for view in views],
        "notes": [encodable(known[key]) for key in _NOTES if known.get(key)],
    }


def _series(view: SeriesView, origin: int, most: int) -> dict[str, Any]:
    parts = min(len(view.series), most)
    return {
        "device": encodable(view.series.device),
        "interval": int(view.series.interval),
        "begin": view.begin - origin,
        "whole": max(view.length, 1),
        "rows": len(view.series),
        "points": parts,
        "metrics": [
            _metric(view, column, parts, origin) for column in range(len(view.series.metrics))
        ],
    }


def _metric(view: SeriesView, column: int, parts: int, origin: int) -> dict[str, Any]:
    metric, values = view.series.metrics[column], view.series.values[column]
    known = values[np.isfinite(values)]
    return {
        "name": encodable(metric.name),
        "unit": metric.unit,
        "mean": _number(view.series.mean(column)) if known.size else None,
        "least": _number(known.min()) if known.size else None,
        "most": _number(known.max()) if known.size else None,
        "values": [_number(each) for each in view.means(column, parts).tolist()],
        "highest": _stretch(view.highest(column), view.begin - origin),
        "lowest": _stretch(view.lowest(column), view.begin - origin),
    }


def _stretch(stretch: Stretch | None, begin: int) -> list[Any] | None:
    """Return begin, end, mean, and what ran meanwhile."""
    if stretch is None:
        return None
    ran = [
        f"{each.name} {each.share:.0%}" + (f" in {each.scope}" if each.scope else "")
        for each in stretch.ran[:_MOST_RAN]
    ]
    times = [begin + stretch.begin, begin + stretch.end]
    return [*times, _number(stretch.mean), encodable(", ".join(ran))]


def _number(value: float) -> float | int | None:
    """Round to four digits, one more than is ever shown; None where the value is not finite."""
    if not math.isfinite(value):
        return None
    short = float(f"{value:.4g}")
    return int(short) if short == int(short) else short
