"""Parts of a session's numbers by thread and by stream.

In: numbers of the recorder's nodes, and the profile's node for each.  Out: `TrackTotals`.

Operations, calls and ranges are measured by thread, and what devices ran by stream. Visits of a
scope are counted by thread, and its time is divided as its samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from tileprof.profile import Track, TrackTotals
from tileprof.profiler.session.snapshot import scopes_around
from tileprof.profiler.tree.numbers import Numbers
from tileprof.profiler.tree.totals import HostTotals, Parts, add_part
from tileprof.profiler.tree.tree import Node

Row = tuple[int, Track, int, int]
"""Node, track, events, time in ns."""
_OTHER_STREAMS = 0xFFFFFFFF
"""Number of the streams after the first ones that a node ran on (`recorder/records/totals.h`)."""


def track_totals(
    periods: Sequence[tuple[Numbers, Sequence[int]]], threads: Mapping[int, tuple[int, str]]
) -> TrackTotals:
    """Return the totals of periods, each with the profile's node for each of the recorder's, or
    -1; `threads` are the identities and names of threads by their numbers."""
    rows = [row for numbers, made in periods for row in _rows(numbers, made, threads)]
    tracks = list(dict.fromkeys(track for _, track, _, _ in rows))
    places = {track: place for place, track in enumerate(tracks)}
    table = np.array([(node, places[track], events, ns) for node, track, events, ns in rows])
    return TrackTotals.of(tracks, *table.reshape(-1, 4).astype(np.int64).T)


def _rows(
    numbers: Numbers, made: Sequence[int], threads: Mapping[int, tuple[int, str]]
) -> Iterator[Row]:
    samples = _samples_in_scopes(numbers)
    for node in numbers.nodes[1:]:
        if (at := made[node.index]) < 0:
            continue
        host, device = numbers.host[node.index], numbers.device[node.index]
        for key, (events, ns) in _by_thread(node, host, samples.get(node.index, {})).items():
            ident, name = threads[key]
            yield at, Track("thread", name, ident), events, ns
        for stream, (events, ns) in (device.streams if device is not None else {}).items():
            number, on = stream & _OTHER_STREAMS, stream >> 32
            name = "other streams" if number == _OTHER_STREAMS else f"stream {number}"
            yield at, Track("stream", f"cuda:{on} {name}", number, on), events, ns


def _by_thread(node: Node, host: HostTotals | None, samples: Parts) -> Parts:
    """Return a node's parts by thread; `samples`: those in the scope that it is."""
    if host is None:
        return {}
    visits = host.visited_by()
    if node.kind == "scope" and not node.native:
        return {key: (times, samples.get(key, (0, 0))[1]) for key, times in visits.items()}
    launches = {key: (max(times, 1), 0) for key, times in visits.items()}
    return launches | (host.threads or {})


def _samples_in_scopes(numbers: Numbers) -> dict[int, Parts]:
    """Return the samples at and below each scope, down to the next one, by thread."""
    found: dict[int, Parts] = {}
    for node, scope in zip(numbers.nodes, scopes_around(numbers.nodes), strict=True):
        host = numbers.host[node.index]
        if scope and host is not None and host.threads and not node.native:
            for key, (events, ns) in host.threads.items():
                add_part(found.setdefault(scope, {}), key, events, ns)
    return found
