"""Hardware counters over time as packets of Perfetto's trace: a counter track for each.

In: a profile with series.  Out: bytes of packets: a process for each device, and for each of its
counters a track with its unit. Field numbers are those of Perfetto's public `.proto` files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tileprof.profile import Profile
from tileprof.viewer.exports.counter_points import CounterPoints, of_devices
from tileprof.viewer.exports.protobuf import message, number, tag, text

_COUNTER = 4
"""Type of an event that holds a counter's value."""
_SEQUENCE = 3
_FIRST_PROCESS = 20_000_000
_FIRST_TRACK = 3 << 61
"""No track of a thread, of a stream or of a launch has such a number."""


def counter_packets(profile: Profile) -> bytes:
    """Return all packets: tracks, then values."""
    return b"".join(message(1, packet) for packet in _packets(profile))


def _packets(profile: Profile) -> Iterator[bytes]:
    explicit = 3
    for at, (name, counters) in enumerate(of_devices(profile)):
        above = _FIRST_TRACK + (at << 20)
        process = number(1, _FIRST_PROCESS + at) + text(6, name)
        yield message(60, number(1, above) + message(3, process) + number(11, explicit))
        for rank, counter in enumerate(counters, 1):
            unit = message(8, text(6, counter.unit))
            about = number(1, above + rank) + text(2, counter.name) + number(5, above)
            yield message(60, about + unit + number(12, rank))
            yield from _values(above + rank, counter)


def _values(uuid: int, counter: CounterPoints) -> Iterator[bytes]:
    head = number(9, _COUNTER) + number(11, uuid) + tag(44, 1)
    for time, value in zip(counter.times.tolist(), counter.values.tolist()):
        event = message(11, head + struct.pack("<d", value))
        yield number(8, time) + number(10, _SEQUENCE) + event
