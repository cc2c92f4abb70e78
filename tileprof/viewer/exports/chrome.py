"""Chrome's trace format, read by chrome://tracing and Perfetto.

A profile with a timeline is laid out along it, see `chrome_timeline`. Else it is aggregated and has
no time axis. Each node becomes one complete event as wide as its total; children lie side by side
from their parent's start, so everything nests; what is left at the right is the parent's own. The
file says so wherever a reader may look. CTAs with timelines and
hardware counters over time are processes beside it, with times.
"""

from __future__ import annotations

import json
from itertools import chain

import numpy as np

from tileprof.profile import Profile
from tileprof.viewer.columns import default_metric
from tileprof.viewer.exports.chrome_counters import counter_events
from tileprof.viewer.exports.chrome_ctas import cta_events
from tileprof.viewer.exports.chrome_timeline import timeline_to_chrome
from tileprof.viewer.exports.layout import held, walk, widths
from tileprof.viewer.exports.slices import has_slices

_NOTE = "aggregate, not a timeline: widths are sums over the run; order and position mean nothing"


def to_chrome(profile: Profile) -> str:
    """Return JSON of the timeline; without one, an `X` event for each node with a width, in µs.

    A metric that is no time is laid out with its own unit in place of nanoseconds.
    """
    if has_slices(profile):
        return timeline_to_chrome(profile)
    metric = default_metric(profile)
    parents = profile.parents.tolist()
    width = widths(held(profile, metric), parents)
    start = _starts(width, parents)
    events = [
        _metadata("process_name", f"tileprof: {metric}"),
        _metadata("thread_name", _NOTE),
        *(
            _event(profile, node, start[node], width[node])
            for node, _ in walk(parents)
            if width[node]
        ),
        *map(json.loads, chain(cta_events(profile), counter_events(profile))),
    ]
    other = {"kind": _NOTE, "metric": metric, "unit": profile.metrics[metric].unit}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other})


def _starts(width: list[int], parents: list[int]) -> list[int]:
    """Return each node's start: after the siblings before it, counted from its parent's start."""
    cursor = [0] * (len(width) + 1)  # where a node's next child starts; the last is the top level's
    start = []
    for node, parent in enumerate(parents):
        start.append(cursor[parent])
        cursor[node] = cursor[parent]
        cursor[parent] += width[node]
    return start


def _metadata(name: str, value: str) -> dict[str, object]:
    return {"ph": "M", "pid": 0, "tid": 0, "name": name, "args": {"name": value}}


def _event(profile: Profile, node: int, start: int, width: int) -> dict[str, object]:
    own = {name: float(values[node]) for name, values in profile.own.items()}
    arguments: dict[str, object] = {
        f"{name} (own)": value for name, value in own.items() if value and not np.isnan(value)
    }
    location = profile.locations[node]
    if location is not None:
        arguments["location"] = f"{location.file}:{location.line}"
    if profile.phases[node]:
        arguments["phase"] = profile.phases[node]
    return {
        "ph": "X",
        "pid": 0,
        "tid": 0,
        "name": profile.names[node],
        "cat": profile.kinds[node],
        "ts": start / 1000,
        "dur": width / 1000,
        "args": arguments,
    }
