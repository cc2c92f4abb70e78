"""The program's timeline as columns of JSON values: threads, and below them streams of devices.

In: a profile with single events.  Out: rows of bars; what nests in a thread has rows of its own.
Times are ns on the axis that the page's counters have too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.profile import Profile
from tileprof.viewer.exports.slices import Slices
from tileprof.viewer.html.bars import Bars, bars_of
from tileprof.viewer.text import encodable

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
