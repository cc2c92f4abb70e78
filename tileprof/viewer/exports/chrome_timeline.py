"""A timeline in Chrome's trace format: an `X` event for each event, a thread for each row.

A launch and what it launched are joined by a flow (`s` and `f`). Call paths are `stackFrames`, once
for each node, to which events refer with `sf`. Times are in microseconds, with all nanoseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice

from tileprof.profile import Profile
from tileprof.viewer.exports.chrome_counters import counter_events
from tileprof.viewer.exports.chrome_ctas import cta_events
from tileprof.viewer.exports.slices import Slices
from tileprof.viewer.text import encodable

_AT_ONCE = 50_000
"""Number of events joined at a time; separate texts would take several times the memory."""


def timeline_to_chrome(profile: Profile) -> str:
    """Return JSON of the events of a profile's timeline."""
    slices = Slices(profile)
    known = profile.tables.provenance
    pid = known.get("pid", "")
    pid = pid if pid.isdigit() else "1"
    other = {key: encodable(known[key]) for key in ("command", "overwritten") if key in known}
    head = {"displayTimeUnit": "ns", "otherData": other, "stackFrames": _frames(slices)}
    parts = [json.dumps(head)[:-1], ', "traceEvents": [\n']
    events = chain(_events(slices, pid), cta_events(profile), counter_events(profile))
    while some := list(islice(events, _AT_ONCE)):
        parts += [",\n" if len(parts) > 2 else "", ",\n".join(some)]
    return "".join([*parts, "\n]}\n"])


def _frames(slices: Slices) -> dict[str, dict[str, str]]:
    """Return the frames that events refer to: the nodes that have events, and their ancestors."""
    profile = slices.profile
    wanted = {each for node in slices.nodes for each in profile.path(node)}
    frames = {}
    for node in sorted(wanted):
        frames[str(node)] = {"name": slices.names[node], "category": profile.kinds[node]}
        if (above := int(profile.parents[node])) >= 0:
            frames[str(node)]["parent"] = str(above)
    return frames


def _events(slices: Slices, pid: str) -> Iterator[str]:
    for row, name in enumerate(["", *slices.rows]):
        told = name or encodable(slices.profile.tables.provenance.get("command", "tileprof"))
        kind = "thread_name" if name else "process_name"
        yield _metadata(pid, row, kind, {"name": told})
        if name:
            yield _metadata(pid, row, "thread_sort_index", {"sort_index": row})
    events, kinds = slices.events, slices.profile.kinds
    about = {
        node: f'"name":{json.dumps(slices.names[node])},"cat":"{kinds[node]}","sf":"{node}"}}'
        for node in slices.nodes
    }
    columns = (events.start, events.duration, events.node, slices.row)
    for start, ns, node, row in zip(*(column.tolist() for column in columns)):
        yield (
            f'{{"ph":"X","pid":{pid},"tid":{row + 1},"ts":{start // 1000}.{start % 1000:03d},'
            f'"dur":{ns // 1000}.{ns % 1000:03d},{about[node]}'
        )
    yield from _flows(slices, pid)


def _flows(slices: Slices, pid: str) -> Iterator[str]:
    starts, row = slices.events.start.tolist(), slices.row.tolist()
    for launch, event in slices.launched():
        for end, at in (('"ph":"s"', launch), ('"ph":"f","bp":"e"', event)):
            start = starts[at]
            yield (
                f'{{{end},"id":{event},"pid":{pid},"tid":{row[at] + 1},"name":"launch",'
                f'"cat":"launch","ts":{start // 1000}.{start % 1000:03d}}}'
            )


def _metadata(pid: str, thread: int, name: str, about: dict[str, object]) -> str:
    event = {"ph": "M", "pid": int(pid), "tid": thread, "name": name, "args": about}
    return json.dumps(event)
