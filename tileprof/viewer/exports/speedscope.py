"""speedscope's file format (https://www.speedscope.app/file-format-schema.json).

One evented profile for each metric that adds up: a node opens, its children follow one another, its
own comes last, it closes. As in every layout of an aggregate, order means nothing; the left-heavy
and sandwich views are the ones to use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.viewer.columns import default_metric
from tileprof.viewer.exports.layout import called, held, walk, widths

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {"ns": "nanoseconds", "bytes": "bytes"}

_Frame = tuple[str, str | None, int | None]


def to_speedscope(profile: Profile) -> str:
    """Return JSON with shared frames and one profile a metric; the default metric is first."""
    frames, frame_of = _frames(profile)
    layouts = _layouts(profile)
    if not layouts:
        raise UsageError(
            "the profile holds no metric that adds up, so nothing has a width",
            hint="Use `--to hatchet` or `tileprof view --json`, which show all metrics.",
        )
    first = default_metric(profile)
    return json.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": "tileprof",
            "name": profile.tables.provenance.get("command", "tileprof"),
            "activeProfileIndex": list(layouts).index(first) if first in layouts else 0,
            "shared": {"frames": [_frame_object(frame) for frame in frames]},
            "profiles": [
                _evented(profile, name, width, frame_of) for name, width in layouts.items()
            ],
        }
    )


def _layouts(profile: Profile) -> dict[str, list[int]]:
    """Return the width of every node, for each metric that adds up and is not zero everywhere."""
    parents = profile.parents.tolist()
    layouts = {
        name: widths(held(profile, name), parents)
        for name, metric in profile.metrics.items()
        if metric.adds == "sum"
    }
    return {name: width for name, width in layouts.items() if any(width)}


def _frames(profile: Profile) -> tuple[list[_Frame], list[int]]:
    """Return the distinct frames, and for each node the index of its own."""
    seen: dict[_Frame, int] = {}
    indices = []
    for name, location in zip(called(profile), profile.locations):
        file, line = (location.file, location.line or None) if location else (None, None)
        indices.append(seen.setdefault((name, file, line), len(seen)))
    return list(seen), indices


def _frame_object(frame: _Frame) -> dict[str, object]:
    name, file, line = frame
    place = {"file": file, "line": line}
    return {"name": name, **{key: value for key, value in place.items() if value is not None}}


def _evented(
    profile: Profile, metric: str, width: list[int], frame_of: list[int]
) -> dict[str, object]:
    parents = profile.parents.tolist()
    return {
        "type": "evented",
        "name": metric,
        "unit": _UNITS.get(profile.metrics[metric].unit, "none"),
        "startValue": 0,
        "endValue": sum(width[node] for node, parent in enumerate(parents) if parent < 0),
        "events": list(_events(parents, width, frame_of)),
    }


def _events(
    parents: list[int], width: list[int], frame_of: list[int]
) -> Iterator[dict[str, object]]:
    """Yield opening and closing events in order; nodes without width have none."""
    stack: list[tuple[int, int]] = []  # (node, where it ends)
    at = 0
    for node, depth in walk(parents):
        if not width[node]:
            continue
        while len(stack) > depth:
            closed, at = stack.pop()
            yield {"type": "C", "frame": frame_of[closed], "at": at}
        yield {"type": "O", "frame": frame_of[node], "at": at}
        stack.append((node, at + width[node]))
    while stack:
        closed, at = stack.pop()
        yield {"type": "C", "frame": frame_of[closed], "at": at}
