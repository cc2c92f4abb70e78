"""Nodes divided by stream of a device or thread of the program.

In: a profile with totals by track, or of an earlier version with a timeline.  Out: the same tree,
where each node's values are of one track, and the name of that track for each node.

    a node with events on one track    keeps its values
    with events on several tracks      becomes a node for each: times in proportion to the time of
                                       the events, other sums to their number; an extreme, or a
                                       value that does not add up, goes to the largest part
    without events                     has the tracks of the node around it; for streams only
                                       places inside a kernel do, because other nodes ran on none

What a device did has the threads of its launch. Where a timeline has lost the oldest events of the
host, the newest stand for all of a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile import metrics as law
from tileprof.profile.kernel_places import DEVICE_WORK, inside_kernels, whole_kernels
from tileprof.profile.metrics import Column, Metric
from tileprof.profile.timeline import Timeline, TimelineEvents
from tileprof.profile.track_totals import TrackTotals
from tileprof.profile.tree.forest import Nodes, Weights, nearest
from tileprof.profile.tree.model import Profile, build

Kind = Literal["stream", "thread"]

NOT_KEPT = "(not on the timeline)"
"""Values whose event, or whose launch, the timeline does not have; and those of sampled frames
outside of scopes and operations, which have no events."""
_UNKNOWN = "(thread not known)"
"""Values that no thread is known of, where there are totals by thread."""
_WITHOUT: Mapping[Kind, str] = {"stream": "(no stream)", "thread": NOT_KEPT}
"""Name for nodes without events."""
_WORK: Mapping[Kind, str] = {"stream": "any kernel or copy", "thread": "any call"}
_HINTS: Mapping[Kind, str] = {
    "stream": "Nothing was recorded on a GPU's stream: kernels of the `cpu` have none.",
    "thread": "Its timeline has streams alone.",
}
"""Why a profile with tracks has none of a kind."""


def divided(profile: Profile, kind: Kind) -> tuple[Profile, list[str]]:
    """Return the profile with each node on one track of this kind, and each node's track by name.

    Nodes without a track have the name `(no stream)` or `(not on the timeline)`. Nodes that are
    added are siblings of those that they are parts of, without children. Raises `UsageError` where
    the profile has no such tracks.
    """
    totals = TrackTotals() if _is_better_known(profile, kind) else profile.tables.track_totals
    tracks = totals.tracks or profile.tables.timeline.tracks
    if not any(track.kind == kind for track in tracks):
        raise UsageError(
            f"the profile does not know the {kind} of {_WORK[kind]}",
            hint=_HINTS[kind]
            if tracks
            else "Record it again: earlier versions of tileprof kept "
            "threads and streams with `--timeline` alone.",
        )
    names = list(dict.fromkeys(track.name for track in tracks if track.kind == kind))
    parts = (_totals if totals.tracks else _parts)(profile, kind, names)
    source = _sources(profile, kind, parts)
    made, part = _split(profile, parts, source)
    without = _UNKNOWN if kind == "thread" and totals.tracks else _WITHOUT[kind]
    labels = [*names, NOT_KEPT, without]
    label = np.append(parts.label, len(names) + 1)[part]
    return made, [labels[each] for each in label.tolist()]


def _is_better_known(profile: Profile, kind: Kind) -> bool:
    """Return whether the timeline has all events, with the launch of each on a device: totals have
    the threads of launches alone."""
    tracks = profile.tables.timeline.tracks
    whole = "overwritten" not in profile.tables.provenance
    return kind == "thread" and whole and any(track.kind == kind for track in tracks)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Parts of nodes with events, in order of the node, the largest part of a node first."""

    node: Nodes
    label: Nodes
    """Number of the track's name; the first number after the names stands for `NOT_KEPT`."""
    time: Weights
    """Time of the events in ns, and what else counts as time of this part."""
    events: Weights
    """Number of events."""
    of_event: Nodes
    """Part that each event of the timeline is in; -1 for none."""


def _parts(profile: Profile, kind: Kind, names: list[str]) -> _Parts:
    """Return the parts of each node: by events of devices, else by events of the host."""
    timeline = profile.tables.timeline
    events = timeline.events
    on_device = np.array([track.kind == "stream" for track in timeline.tracks], bool)[events.track]
    label, time = _labels(timeline, kind, names), events.duration.astype(np.float64)
    counts = label >= 0
    if kind == "thread":
        by_device = np.zeros(len(profile), bool)
        by_device[events.node[on_device]] = True
        counts &= on_device | ~by_device[events.node]
        time = np.where(on_device, time, _self_times(events, ~on_device))
    lost, lost_time, lost_events = _lost(profile, events, on_device)
    # A row for each event, then for what has none.
    node = np.concatenate([events.node[counts], lost])
    label = np.concatenate([label[counts], np.full(len(lost), len(names))])
    time = np.concatenate([time[counts], lost_time])
    number = np.concatenate([np.ones(len(node) - len(lost)), lost_events])
    span = len(names) + 1
    keys, part = np.unique(node.astype(np.int64) * span + label, return_inverse=True)
    part = part.reshape(-1)
    times, numbers = _sums(part, time, len(keys)), _sums(part, number, len(keys))
    order = np.lexsort((-numbers, -times, keys // span))
    place = np.empty(len(keys), np.int64)
    place[order] = np.arange(len(keys))
    of_event = np.full(len(events), -1, np.int64)
    of_event[counts] = place[part[: len(part) - len(lost)]]
    keys = keys[order]
    return _Parts(keys // span, keys % span, times[order], numbers[order], of_event)


def _totals(profile: Profile, kind: Kind, names: list[str]) -> _Parts:
    """Return the parts of each node by the totals of tracks, which have all of a node."""
    totals = profile.tables.track_totals
    numbers = {name: number for number, name in enumerate(names)}
    of_track = np.array(
        [numbers[each.name] if each.kind == kind else -1 for each in totals.tracks], np.int64
    )
    counts = of_track[totals.sums.track] >= 0
    node, label = totals.sums.node[counts].astype(np.int64), of_track[totals.sums.track[counts]]
    span = len(names) + 1
    keys, part = np.unique(node * span + label, return_inverse=True)
    part = part.reshape(-1)
    time = _sums(part, totals.sums.time[counts].astype(np.float64), len(keys))
    number = _sums(part, totals.sums.events[counts].astype(np.float64), len(keys))
    order = np.lexsort((-number, -time, keys // span))
    place = np.empty(len(keys) + 1, np.int64)
    place[order], place[-1] = np.arange(len(keys)), -1
    timeline = profile.tables.timeline
    of_event = np.full(len(timeline.events), -1, np.int64)
    if len(keys) and len(of_event):
        labels = _labels(timeline, kind, names)
        wanted = np.where(labels >= 0, timeline.events.node * span + labels, -1)
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        of_event = place[np.where(keys[found] == wanted, found, -1)]
    return _Parts(keys[order] // span, keys[order] % span, time[order], number[order], of_event)


def _lost(
    profile: Profile, events: TimelineEvents, on_device: npt.NDArray[np.bool_]
) -> tuple[Nodes, Weights, Weights]:
    """Return what devices did beyond their events: the nodes, the time in ns, and how many events
    of mean length that is.

    A timeline keeps the newest events alone, and the tree has the work of all.
    """
    at = events.node[on_device]
    kept = _sums(at, events.duration[on_device].astype(np.float64), len(profile))
    number = np.bincount(at, minlength=len(profile))
    beyond = np.zeros(len(profile))
    if "time" in profile.metrics:
        beyond = whole_kernels(profile, "time") - kept
    seen = kept > 0
    if "overwritten" in profile.tables.provenance:
        # Of other nodes none of the events may be left.
        works = np.array([symbol.kind in DEVICE_WORK for symbol in profile.symbols], bool)
        seen |= works[profile.symbol] & (np.bincount(events.node, minlength=len(profile)) == 0)
    lost = np.flatnonzero(seen & (beyond >= 1))
    mean = kept[lost] / np.maximum(number[lost], 1)
    return lost, beyond[lost], beyond[lost] / np.where(mean > 0, mean, beyond[lost])


def _sums(place: Nodes | npt.NDArray[np.int32], values: Weights, count: int) -> Weights:
    """Return the sum of the values at each of `count` places."""
    sums = np.zeros(count)
    np.add.at(sums, place, values)
    return sums


def _labels(timeline: Timeline, kind: Kind, names: list[str]) -> Nodes:
    """Return the number of each event's track by its name; -1 for events on other tracks.

    A device's event is on the thread that launched it.
    """
    events = timeline.events
    numbers = {name: number for number, name in enumerate(names)}
    of_track = np.array(
        [numbers.get(each.name, -1) if each.kind == kind else -1 for each in timeline.tracks],
        np.int64,
    )
    label: Nodes = of_track[events.track]
    if kind == "thread":
        launched_on = np.append(label, len(names))[events.launch]
        label = np.where(label >= 0, label, launched_on)
    return label


def _self_times(events: TimelineEvents, wanted: npt.NDArray[np.bool_]) -> Weights:
    """Return the time of each wanted event without that of events inside it on its track, in ns."""
    start, end = events.start.tolist(), (events.start + events.duration).tolist()
    track = events.track.tolist()
    own: list[int] = events.duration.tolist()
    around: dict[int, list[int]] = {}
    for at in np.flatnonzero(wanted).tolist():
        stack = around.setdefault(track[at], [])
        while stack and end[stack[-1]] <= start[at]:
            stack.pop()
        if stack:
            # Scopes of coroutines overlap without being inside each other.
            own[stack[-1]] -= min(end[at], end[stack[-1]]) - start[at]
        stack.append(at)
    return np.maximum(np.array(own, np.float64), 0)


def _sources(profile: Profile, kind: Kind, parts: _Parts) -> Nodes:
    """Return the node whose parts each node has; -1 where it has none."""
    with_parts = np.zeros(len(profile), bool)
    with_parts[parts.node] = True
    source = nearest(profile.parents, with_parts)
    if kind == "stream":
        source = np.where(with_parts | inside_kernels(profile), source, -1)
    return source


@dataclass(frozen=True, slots=True)
class _Cells:
    """Parts of those nodes that have several, in order of the node."""

    node: Nodes
    """Node that each is a part of."""
    target: Nodes
    """Node that takes its values: for the first part of a node that node, else a new one."""
    until: Mapping[str, Weights]
    """Share of the node's value, 0 to 1, that this part and those before it have; by `_by`."""
    last: npt.NDArray[np.bool_]
    """Whether it is its node's last part."""

    def divide(self, metric: Metric, column: Column, count: int) -> Column:
        """Return a column of a metric for `count` nodes, values of these nodes divided."""
        padded = np.concatenate([column, law.empty_column(metric, count - len(column))])
        if metric.adds != "sum" or not len(self.node):
            return padded
        value = column[self.node]
        # Whole numbers stay whole: the differences of rounded sums add up to the value.
        until = value * self.until[_by(metric)]
        until = np.where(self.last, value, np.rint(until) if value.dtype.kind == "i" else until)
        until = until.astype(value.dtype)
        first = np.append(True, self.last[:-1])
        padded[self.target] = until - np.where(first, 0, np.append(0, until[:-1]))
        return padded


def _by(metric: Metric) -> str:
    return "time" if metric.unit == "ns" else "events"


def _split(profile: Profile, parts: _Parts, source: Nodes) -> tuple[Profile, Nodes]:
    """Return the profile with a node for each part, and the part that each node is; -1 for none.

    The largest part of a node keeps its place, with its children.
    """
    count = np.bincount(parts.node, minlength=len(profile))
    first = np.cumsum(count) - count
    several = np.flatnonzero(np.where(source >= 0, count[source], 0) > 1)
    node = np.repeat(several, count[source[several]])
    begin = np.append(True, np.diff(node) > 0)[: len(node)]
    rank = np.arange(len(node)) - np.maximum.accumulate(np.where(begin, np.arange(len(node)), 0))
    part = first[source[node]] + rank
    target = np.where(begin, node, len(profile) + np.cumsum(~begin) - 1)
    until = {"time": _until(parts.time, parts, first), "events": _until(parts.events, parts, first)}
    until["time"] = np.where(np.isnan(until["time"]), until["events"], until["time"])
    cells = _Cells(
        node, target, {by: shares[part] for by, shares in until.items()}, np.append(begin[1:], True)
    )
    new = node[~begin]
    of_node = np.concatenate([np.where(source >= 0, first[source], -1), part[~begin]])
    own, absorbed = (
        {
            name: cells.divide(metric, columns[name], len(of_node))
            for name, metric in profile.metrics.items()
        }
        for columns in (profile.own, profile.absorbed)
    )
    kernels = {**profile.tables.node_kernels}
    kernels |= {
        at: kernels[each] for at, each in enumerate(new.tolist(), len(profile)) if each in kernels
    }
    timeline = _moved(profile.tables.timeline, parts, cells, part)
    made = build(
        profile.symbols,
        np.append(profile.symbol, profile.symbol[new]),
        np.append(profile.parents, profile.parents[new]),
        profile.metrics,
        own,
        absorbed,
        profile.whole,
        replace(
            profile.tables, timeline=timeline, node_kernels=kernels, track_totals=TrackTotals()
        ),
    )
    return made, of_node


def _until(values: Weights, parts: _Parts, first: Nodes) -> Weights:
    """Return the share of its node that each part and those before it have; NaN of no value."""
    sums = np.append(0.0, np.cumsum(values))
    before = sums[first[parts.node]]
    total = _sums(parts.node, values, len(first))[parts.node]
    with np.errstate(invalid="ignore"):
        until: Weights = np.minimum((sums[1:] - before) / total, 1.0)
    return until


def _moved(timeline: Timeline, parts: _Parts, cells: _Cells, part: Nodes) -> Timeline:
    """Return the timeline with each event at the node of its part."""
    at = parts.node.copy()
    of_own = cells.node == parts.node[part]
    at[part[of_own]] = cells.target[of_own]
    events = timeline.events
    node = np.where(parts.of_event >= 0, np.append(at, -1)[parts.of_event], events.node)
    return Timeline.holding(timeline.tracks, replace(events, node=node.astype(np.int32)))
