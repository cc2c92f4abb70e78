"""CTAs' timelines in Chrome's trace format: `X` events of warps, asynchronous ones of flights.

In: a profile with timelines of CTAs.  Out: events as JSON texts: a process for each launch, a
thread for each warp; asynchronous work begins and ends (`b`, `e`) under an id for each of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from tileprof.profile import Profile
from tileprof.viewer.exports.cta_slices import CtaRow, CtaSlice, processes
from tileprof.viewer.text import encodable

FIRST_PROCESS = 10_000_000
"""Number of the first launch's process; no process of a machine has it."""


def cta_events(profile: Profile) -> Iterator[str]:
    """Yield the events of all launches."""
    for pid, process in enumerate(processes(profile), FIRST_PROCESS):
        yield _metadata(pid, 0, "process_name", {"name": process.name})
        yield _metadata(pid, 0, "process_sort_index", {"sort_index": pid})
        for tid, row in enumerate(process.rows, 1):
            if row.is_flight:
                yield from _flights(pid, row)
                continue
            yield _metadata(pid, tid, "thread_name", {"name": row.name})
            yield _metadata(pid, tid, "thread_sort_index", {"sort_index": tid})
            for each in row.slices:
                head = {"ph": "X", "pid": pid, "tid": tid, **_times(each), **_about(each)}
                yield json.dumps(head)


def _flights(pid: int, row: CtaRow) -> Iterator[str]:
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


def _metadata(pid: int, tid: int, name: str, about: dict[str, object]) -> str:
    return json.dumps({"ph": "M", "pid": pid, "tid": tid, "name": name, "args": about})
