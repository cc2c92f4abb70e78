"""Processor time of a program's threads: how long each of them ran, where samples count waiting.

In and out: the provenance of a profile, where the recorder leaves it as text that people can read.
Nothing can be said of profiles that were put together and differ in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

_KEY = "processor time of threads"
_MOST = 16
"""Largest number of threads that a profile names; the others are one entry."""
OTHERS = (0, "other threads")
"""Identity and name of the entry for all threads after the first ones."""

PROCESSOR_WAIT = "main thread waited for a processor"
"""Key of the provenance with the time in which the main thread was ready to run and had no
processor, as `1.500 s`."""

Thread = tuple[int, str]
"""Identity and name, as tracks of a profile have them."""


def thread_provenance(times: Mapping[Thread, int]) -> dict[str, str]:
    """Return the processor times of threads, in ns, as text for the provenance of a profile."""
    named = (each for each in times if times[each] > 0 and each != OTHERS)
    order = sorted(named, key=lambda each: -times[each])
    rows = [[name, ident, times[ident, name]] for ident, name in order[:_MOST]]
    if rest := times.get(OTHERS, 0) + sum(times[each] for each in order[_MOST:]):
        rows.append([OTHERS[1], OTHERS[0], rest])
    return {_KEY: json.dumps(rows)} if rows else {}


def thread_times(provenance: Mapping[str, str]) -> dict[Thread, int]:
    """Return the processor time of each thread in ns; empty where a profile does not know it."""
    try:
        rows = json.loads(provenance.get(_KEY, "[]"))
        return {(int(ident), str(name)): int(time) for name, ident, time in rows}
    except (TypeError, ValueError):
        return {}
