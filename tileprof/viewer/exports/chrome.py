"""Chrome's trace format, read by chrome://tracing and Perfetto.

A profile with a timeline is laid out along it, an `X` event for each event and a
thread for each row; a launch and what it launched are joined by a flow (`s` and `f`); call paths
are `stackFrames`, to which events refer with `sf`. Else it is aggregated and has
no time axis. Each node becomes one complete event as wide as its total; children lie side by side
from their parent's start, so everything nests; what is left at the right is the parent's own. The
file says so wherever a reader may look. CTAs with timelines and
hardware counters over time are processes beside it, with times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain, islice

import numpy as np

from tileprof.profile import Profile
from tileprof.viewer.columns import default_metric
from tileprof.viewer.exports.counter_points import of_devices
from tileprof.viewer.exports.cta_slices import CtaRow, CtaSlice, processes
from tileprof.viewer.exports.layout import held, walk, widths
from tileprof.viewer.exports.slices import Slices, has_slices
from tileprof.viewer.text import encodable

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
        _metadata(0, 0, "process_name", name=f"tileprof: {metric}"),
        _metadata(0, 0, "thread_name", name=_NOTE),
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


def _metadata(process: int, thread: int, kind: str, **about: object) -> dict[str, object]:
    """Return the event that says what a process or a thread is called, or where it stands."""
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": about}


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
        yield json.dumps(_metadata(int(pid), row, kind, name=told))
        if name:
            yield json.dumps(_metadata(int(pid), row, "thread_sort_index", sort_index=row))
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


_FIRST_DEVICE = 20_000_000
"""Number of the first device's process; no process of a machine has it, and no launch."""


def counter_events(profile: Profile) -> Iterator[str]:
    """Yield the events of all devices, as JSON texts."""
    for pid, (process, counters) in enumerate(of_devices(profile), _FIRST_DEVICE):
        yield json.dumps(_metadata(pid, 0, "process_name", name=process))
        yield json.dumps(_metadata(pid, 0, "process_sort_index", sort_index=pid))
        for each in counters:
            name = json.dumps(f"{each.name} ({each.unit})" if each.unit != "1" else each.name)
            for time, value in zip(each.times.tolist(), each.values.tolist()):
                yield (
                    f'{{"ph":"C","pid":{pid},"tid":0,"name":{name},'
                    f'"ts":{time // 1000}.{time % 1000:03d},"args":{{"value":{value:.6g}}}}}'
                )


_FIRST_LAUNCH = 10_000_000
"""Number of the first launch's process; no process of a machine has it."""


def cta_events(profile: Profile) -> Iterator[str]:
    """Yield the events of all launches."""
    for pid, process in enumerate(processes(profile), _FIRST_LAUNCH):
        yield json.dumps(_metadata(pid, 0, "process_name", name=process.name))
        yield json.dumps(_metadata(pid, 0, "process_sort_index", sort_index=pid))
        for tid, row in enumerate(process.rows, 1):
            if row.is_flight:
                yield from _flights_of(pid, row)
                continue
            yield json.dumps(_metadata(pid, tid, "thread_name", name=row.name))
            yield json.dumps(_metadata(pid, tid, "thread_sort_index", sort_index=tid))
            for each in row.slices:
                head = {"ph": "X", "pid": pid, "tid": tid, **_times(each), **_about(each)}
                yield json.dumps(head)


def _flights_of(pid: int, row: CtaRow) -> Iterator[str]:
    for each in row.slices:
        common = {"pid": pid, "id": row.name}
        yield json.dumps({"ph": "b", **common, "ts": _us(each.begin), **_about(each)})
        end = {"name": encodable(each.name), "cat": each.kind}
        yield json.dumps({"ph": "e", **common, "ts": _us(each.end), **end})


def _times(each: CtaSlice) -> dict[str, float]:
    return {"ts": _us(each.begin), "dur": _us(each.end - each.begin)}


def _us(ns: int) -> float:
    # Times of machines that are up for three months and longer have all ns still.
    return ns / 1000


def _about(each: CtaSlice) -> dict[str, object]:
    return {"name": encodable(each.name), "cat": each.kind, "args": each.notes}
