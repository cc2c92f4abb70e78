"""Hardware counters over time in Chrome's trace format: `C` events, a process for each device."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tileprof.profile import Profile
from tileprof.viewer.exports.counter_points import of_devices

_FIRST_PROCESS = 20_000_000
"""Number of the first device's process; no process of a machine has it, and no launch."""


def counter_events(profile: Profile) -> Iterator[str]:
    """Yield the events of all devices, as JSON texts."""
    for pid, (process, counters) in enumerate(of_devices(profile), _FIRST_PROCESS):
        for name, about in (("process_name", {"name": process}),
                            ("process_sort_index", {"sort_index": pid})):  # fmt: skip
            yield json.dumps({"ph": "M", "pid": pid, "tid": 0, "name": name, "args": about})
        for each in counters:
            name = json.dumps(f"{each.name} ({each.unit})" if each.unit != "1" else each.name)
            for time, value in zip(each.times.tolist(), each.values.tolist()):
                yield (
                    f'{{"ph":"C","pid":{pid},"tid":0,"name":{name},'
                    f'"ts":{time // 1000}.{time % 1000:03d},"args":{{"value":{value:.6g}}}}}'
                )
