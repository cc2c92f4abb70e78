"""The page of a report: its parts and its data put together.

In: a report.  Out: the text of an HTML page, or a file.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.report import Report
from tileprof.errors import OutputError, ProfileFileError
from tileprof.files import replace_bytes
from tileprof.profile import Frames, Profile, Timeline, as_shown
from tileprof.viewer.ctas.ctas import has_ctas
from tileprof.viewer.exports.counter_points import has_counters
from tileprof.viewer.exports.slices import Slices
from tileprof.viewer.findings.entry import kernel_text
from tileprof.viewer.html.account_data import account_of
from tileprof.viewer.html.assembly import asset, assets, embedded, filled
from tileprof.viewer.html.bars import Bars, bars_of
from tileprof.viewer.html.code_data import CodeData
from tileprof.viewer.html.cta_data import ctas_of
from tileprof.viewer.html.memory_data import memory_of
from tileprof.viewer.html.report_data import findings_of, header_of, kernels_of, roofs_of, runs_of
from tileprof.viewer.html.tree_data import kept_tree, tree_of
from tileprof.viewer.series import SeriesView, Stretch, series_views
from tileprof.viewer.text import encodable

_STYLES = ("style.css", "views.css", "account.css", "details.css", "timelines.css")
_SCRIPTS = (
    "core.js", "rows.js", "tree_model.js", "node_facts.js", "finding_parts.js", "account.js",
    "findings.js", "tree.js", "flame.js", "roofline.js", "memory.js",
    "kernels.js", "code_model.js",
    "code_source.js", "code_machine.js", "code.js", "time_canvas.js", "bars.js", "curves.js",
    "time_words.js", "warp_timeline.js", "event_timeline.js", "counter_timeline.js", "timelines.js",
    "main.js",
)  # fmt: skip
_LAUNCH = "^cu(da)?Launch"
"""Calls that launch, as a regular expression."""


def write_html(report: Report, path: str | Path, frames: Frames = "user") -> None:
    """Write the page of a report, whose tree has those frames of Python.

    OutputError where the file cannot be written.
    """
    try:
        replace_bytes(path, report_page(report, frames).encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}", hint="Choose another file with --html FILE."
        ) from error


def report_page(report: Report, frames: Frames = "user") -> str:
    """Return the text of the page, whose tree has those frames."""
    title = report.program.profile.tables.provenance.get("command", "") or "report"
    parts = {
        "title": html.escape(encodable(title)),
        "style": assets("styles", _STYLES),
        "data": embedded(report_data(report, frames)),
        "script": assets("scripts", _SCRIPTS),
    }
    return filled(asset("page.html"), parts)


def report_data(report: Report, frames: Frames = "user") -> dict[str, Any]:
    """Return all that the page shows, as JSON values."""
    profile = report.program.profile
    # The events of a timeline are told by their nodes, calls that launch too.
    shown = as_shown(profile, frames, _LAUNCH if profile.tables.timeline.tracks else None)
    tree, places = kept_tree(shown.profile)
    moved = np.where(shown.moved >= 0, places[shown.moved], -1)
    code = CodeData(report)
    return {
        "header": header_of(report),
        "runs": runs_of(report),
        "account": account_of(report),
        "findings": findings_of(report, code, moved),
        "kernels": kernels_of(report, code, moved),
        "roofs": roofs_of(report),
        "memory": memory_of(report),
        "tree": {**tree_of(tree), "leftOut": shown.left_out},
        "short": short_names(report),
        "timelines": timelines_of(report.program.profile, code, moved),
        "code": code.document(),
    }


def short_names(report: Report) -> dict[str, str]:
    """Return names of kernels as they are read, by the whole name, where that is longer."""
    program = report.program
    names = {each.name for each in program.profile.symbols if each.kind == "kernel"}
    names |= {case.name for case in program.kernels}
    shown = {encodable(name): encodable(kernel_text(name)) for name in sorted(names)}
    return {name: text for name, text in shown.items() if text != name}


def timelines_of(
    profile: Profile, code: CodeData, moved: npt.NDArray[np.int64]
) -> dict[str, dict[str, Any]]:
    """Return the parts by name; a part that is damaged in its file says what is wrong."""
    parts: dict[str, Callable[[], dict[str, Any]]] = {}
    if has_ctas(profile):
        parts["cta"] = lambda: ctas_of(profile, code)
    readable = _readable(profile)
    origin = _origin(readable)
    if has_counters(profile):
        parts["counters"] = lambda: counters_of(readable, origin)
    if profile.tables.timeline.tracks:
        parts["program"] = lambda: events_of(profile, origin, moved)
    made = {name: _told(make) for name, make in parts.items()}
    return {name: part for name, part in made.items() if part}


def _told(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return make()
    except ProfileFileError as error:
        return {"damaged": encodable(str(error))}


def _readable(profile: Profile) -> Profile:
    """Return the profile, without damaged events: counters do not need them."""
    try:
        len(profile.tables.timeline.events)
    except ProfileFileError:
        return replace(profile, tables=replace(profile.tables, timeline=Timeline()))
    return profile


def _origin(profile: Profile) -> int:
    """Return the first time on the axis that events and counters share."""
    series = [int(each.start[0]) for each in profile.tables.series if len(each)]
    return min([*series, *profile.tables.timeline.events.start[:1].tolist()], default=0)


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
    metric = view.series.metrics[column]
    mean, least, most = map(_number, view.numbers(column))
    return {
        "name": encodable(metric.name),
        "unit": metric.unit,
        "mean": mean,
        "least": least,
        "most": most,
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


_MOST_BARS = 16_000
"""Largest number of bars on a page: 0.8 MB with the facts about their nodes."""
_MOST_ROWS = 100
"""Largest number of rows; of more, those with the most time are shown."""
_MOST_TEXT = 200_000
"""Characters of names of nodes that are not in the page's tree."""

_Ints = npt.NDArray[np.int64]


def events_of(profile: Profile, origin: int, moved: _Ints) -> dict[str, Any]:
    """Return all events; `moved` maps nodes to the page's tree, `origin` is its time 0."""
    slices = Slices(profile)
    events = slices.events
    if not len(events):
        return {}
    level, names = _levels(slices)
    rows = np.sort(np.argsort(-np.bincount(level, events.duration), kind="stable")[:_MOST_ROWS])
    kept = np.flatnonzero(np.isin(level, rows))
    row, begin = np.searchsorted(rows, level[kept]), events.start[kept] - origin
    end = begin + events.duration[kept]
    bars = bars_of(row, begin, end, events.node[kept], _MOST_BARS)
    nodes, what = np.unique(bars.what, return_inverse=True)
    bars = replace(bars, what=what)
    return {
        "begin": int(begin.min()),
        "whole": max(int(end.max() - begin.min()), 1),
        "rows": [[names[each], False, []] for each in rows.tolist()],
        "left": len(names) - len(rows),
        "note": encodable(profile.tables.provenance.get("overwritten", "")),
        **bars.columns(len(rows)),
        "nodes": moved[nodes].tolist(),
        "others": _others(slices, nodes, moved),
        "launches": _launches(bars, kept, events.launch),
    }


def _others(slices: Slices, nodes: _Ints, moved: _Ints) -> dict[str, list[str]]:
    """Return kind and name, by place, of nodes that the page's tree merges into one above."""
    kinds, parents, room = slices.profile.kinds, slices.profile.parents, _MOST_TEXT
    found: dict[str, list[str]] = {}
    for place, node in enumerate(nodes.tolist()):
        if moved[node] >= 0 and (parents[node] < 0 or moved[parents[node]] != moved[node]):
            continue
        name = slices.names[node]
        room -= len(name)
        found[str(place)] = [kinds[node], name] if room >= 0 else [kinds[node]]
    return found


def _launches(bars: Bars, kept: _Ints, launch: npt.NDArray[np.int32]) -> list[list[int]]:
    """Return pairs of single bars: the launched event, and the call that launched it."""
    event = np.where(bars.source >= 0, kept[bars.source], -1)
    place = np.full(len(launch) + 1, -1, np.int64)
    place[event[event >= 0]] = np.flatnonzero(event >= 0)
    by = np.where(event >= 0, place[launch[event]], -1)
    found = np.flatnonzero(by >= 0)
    pairs: list[list[int]] = np.stack([found, by[found]], axis=1).tolist()
    return pairs


def _levels(slices: Slices) -> tuple[_Ints, list[str]]:
    """Return rows of events, and names of rows: each track has as many as it nests deep."""
    events = slices.events
    row, names = np.zeros(len(events), np.int64), list[str]()
    for number, name in enumerate(slices.rows):
        mine = np.flatnonzero(slices.row == number)
        if not len(mine):
            continue
        depth = _depths(events.start[mine], events.start[mine] + events.duration[mine])
        row[mine] = len(names) + depth
        names += [name, *[""] * int(depth.max())]
    return row, names


def _depths(start: _Ints, end: _Ints) -> _Ints:
    """Return for nested spans, in order of their start, how many of the others enclose each."""
    depth = np.zeros(len(start), np.int64)
    if (start[1:] >= np.maximum.accumulate(end)[:-1]).all():
        return depth
    opened: list[int] = []
    for at, (begin, stop) in enumerate(zip(start.tolist(), end.tolist())):
        while opened and opened[-1] <= begin:
            opened.pop()
        depth[at] = len(opened)
        opened.append(stop)
    return depth
