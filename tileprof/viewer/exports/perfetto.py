"""Perfetto's trace: the timeline as packets of its protobuf format, for ui.perfetto.dev.

In: a profile with single events, timelines of CTAs or counters.  Out: bytes.  A row of slices is a
track of the process; a launch and what it launched are joined by a flow; a slice has its call path
as an annotation. Names and paths are written once and then referred to by number. Field numbers are
those of Perfetto's public `.proto` files.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.profile import Profile
from tileprof.viewer.ctas.ctas import has_ctas
from tileprof.viewer.exports.counter_points import CounterPoints, has_counters, of_devices
from tileprof.viewer.exports.cta_slices import CtaProcess, CtaRow, processes
from tileprof.viewer.exports.slices import Slices, has_slices
from tileprof.viewer.text import encodable

_BEGIN, _END = 1, 2
_CLEARED, _NEEDED = 1, 2
"""Flags of a packet: it defines names anew, and it refers to names."""
_SEQUENCE = 1
_AT_ONCE = 1 << 16
"""Number of times computed together."""


def to_perfetto(profile: Profile) -> bytes:
    """Return the bytes of a `Trace`; UsageError where the profile has no timeline."""
    if not (has_slices(profile) or has_ctas(profile) or has_counters(profile)):
        raise UsageError(
            "the profile has no timeline",
            hint="Record one with `tileprof run --timeline`; `--to chrome` shows the tree without.",
        )
    trace = _timeline(profile) if has_slices(profile) else b""
    ctas = cta_packets(profile) if has_ctas(profile) else b""
    return trace + ctas + counter_packets(profile)


def _timeline(profile: Profile) -> bytes:
    slices = Slices(profile)
    pid = _pid(profile)
    tracks = [(pid << 20) + 1 + row for row in range(len(slices.rows))]
    trace = bytearray()
    for packet in _descriptors(slices, pid, tracks):
        trace += message(1, packet)
    told = _Told(_SEQUENCE)
    begins = {
        node: _begin(
            slices.profile.kinds[node], slices.names[node], {"path": slices.path(node)}, told
        )
        for node in slices.nodes
    }
    trace += message(1, told.packet())
    _add_slices(trace, slices, begins, pid, tracks)
    return bytes(trace)


def _pid(profile: Profile) -> int:
    told = profile.tables.provenance.get("pid", "")
    # Numbers of tracks and flows are made of it: one beyond 22 bits is no process of Linux.
    return int(told) if told.isascii() and told.isdigit() and int(told) < 1 << 22 else 1


def _descriptors(slices: Slices, pid: int, tracks: list[int]) -> Iterator[bytes]:
    """Yield the process and its tracks, in the order of the rows."""
    command = slices.profile.tables.provenance.get("command", "tileprof")
    process = number(1, pid) + text(6, command)
    explicit = 3
    yield message(60, number(1, pid << 20) + message(3, process) + number(11, explicit))
    for rank, (uuid, name) in enumerate(zip(tracks, slices.rows)):
        about = number(1, uuid) + text(2, name) + number(5, pid << 20) + number(12, rank)
        yield message(60, about)


def _add_slices(
    trace: bytearray, slices: Slices, of_node: dict[int, bytes], pid: int, tracks: list[int]
) -> None:
    flows = _flows(slices, pid)
    on_track = [number(11, uuid) for uuid in tracks]
    flags = number(10, _SEQUENCE) + number(13, _NEEDED)
    ends = [flags + message(11, number(9, _END) + track) for track in on_track]
    begins: dict[tuple[int, int], bytes] = {}
    node, row = slices.events.node.tolist(), slices.row.tolist()
    events, times, is_end = slices.changes()
    for event, stamp, end in zip(events.tolist(), _stamps(times), is_end.tolist()):
        if end:
            rest = ends[row[event]]
        elif event in flows:
            rest = flags + message(11, of_node[node[event]] + on_track[row[event]] + flows[event])
        else:
            place = (node[event], row[event])
            if place not in begins:
                begins[place] = flags + message(11, of_node[place[0]] + on_track[place[1]])
            rest = begins[place]
        trace += b"\x0a" + varint(len(stamp) + len(rest)) + stamp + rest


def _flows(slices: Slices, pid: int) -> dict[int, bytes]:
    """Return the flows that begin or end in each event: one for each launch and its work."""
    found: dict[int, bytes] = {}
    begins, ends = tag(47, 1), tag(48, 1)
    for launch, event in slices.launched():
        flow = struct.pack("<Q", (pid << 36) + event + 1)
        found[launch] = found.get(launch, b"") + begins + flow
        found[event] = found.get(event, b"") + ends + flow
    return found


def _stamps(times: npt.NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the time field of each packet; times ascend, so many have one length."""
    limits = np.array([0, *(1 << 7 * size for size in range(1, 9)), 2**63 - 1])
    for size in range(1, 10):
        first, end = (int(np.searchsorted(times, limit)) for limit in limits[size - 1 : size + 1])
        for start in range(first, end, _AT_ONCE):
            some = times[start : min(start + _AT_ONCE, end)]
            digits = np.empty((len(some), size + 1), np.uint8)
            digits[:, 0] = tag(8, 0)[0]
            for place in range(size):
                more = 0x80 if place < size - 1 else 0
                digits[:, place + 1] = some >> 7 * place & 0x7F | more
            told = digits.tobytes()
            for at in range(0, len(told), size + 1):
                yield told[at : at + size + 1]


_CTA_SEQUENCE = 2
_FIRST_LAUNCH = 10_000_000
_FIRST_LAUNCH_TRACK = 1 << 62
"""No track of a thread or of a stream has such a number."""
_KINDS, _NAMES, _NOTES, _TEXTS = 1, 2, 3, 29
"""Fields of texts written once: categories, names, names of notes, texts of notes."""


class _Told:
    """Texts by number, from 1."""

    def __init__(self, sequence: int) -> None:
        self._sequence = sequence
        self._numbers: dict[int, dict[str, int]] = {
            field: {} for field in (_KINDS, _NAMES, _NOTES, _TEXTS)
        }

    def number(self, field: int, told: str) -> int:
        """Return the number of a text."""
        numbers = self._numbers[field]
        return numbers.setdefault(told, len(numbers) + 1)

    def packet(self) -> bytes:
        """Return the packet that defines all texts."""
        told = [
            message(field, number(1, at) + text(2, told))
            for field, numbers in self._numbers.items()
            for told, at in numbers.items()
        ]
        return number(10, self._sequence) + number(13, _CLEARED) + message(12, b"".join(told))


def cta_packets(profile: Profile) -> bytes:
    """Return all packets: tracks, texts, slices."""
    made, told = list(processes(profile)), _Told(_CTA_SEQUENCE)
    tracks = list(_tracks(made))
    slices = bytearray()
    for uuid, row in tracks:
        for packet in _slices(uuid, row, told):
            slices += message(1, packet)
    head = b"".join(message(1, packet) for packet in _cta_descriptors(made))
    return head + message(1, told.packet()) + bytes(slices)


def _tracks(made: Iterable[CtaProcess]) -> Iterator[tuple[int, CtaRow]]:
    """Yield all rows with the numbers of their tracks."""
    for at, process in enumerate(made):
        for rank, row in enumerate(process.rows, 1):
            yield _track(at, rank), row


def _track(process: int, rank: int) -> int:
    return _FIRST_LAUNCH_TRACK + (process << 20) + rank


def _cta_descriptors(made: Iterable[CtaProcess]) -> Iterator[bytes]:
    explicit = 3
    for at, process in enumerate(made):
        above = _track(at, 0)
        about = number(1, _FIRST_LAUNCH + at) + text(6, process.name)
        yield message(60, number(1, above) + message(3, about) + number(11, explicit))
        for rank, row in enumerate(process.rows, 1):
            track = number(1, _track(at, rank)) + text(2, row.name)
            yield message(60, track + number(5, above) + number(12, rank))


def _slices(uuid: int, row: CtaRow, told: _Told) -> Iterator[bytes]:
    """Yield the begins and ends of a track's slices; the slice begun last ends first."""
    track = number(11, uuid)
    end = number(9, _END) + track
    known: dict[int, bytes] = {}
    opened: list[int] = []
    for each in row.slices:
        while opened and opened[-1] <= each.begin:
            yield _packet(opened.pop(), end)
        # Notes of a site are one object, of asynchronous work each has its own.
        if (begin := known.get(id(each.notes))) is None:
            begin = _begin(each.kind, each.name, each.notes, told) + track
            known[id(each.notes)] = begin
        yield _packet(each.begin, begin)
        opened.append(each.end)
    while opened:
        yield _packet(opened.pop(), end)


def _begin(kind: str, name: str, notes: Mapping[str, str], told: _Told) -> bytes:
    """Return the part of a slice's beginning that all slices of this kind, name and notes share."""
    noted = b"".join(
        message(4, number(1, told.number(_NOTES, note)) + number(17, told.number(_TEXTS, text)))
        for note, text in notes.items()
    )
    numbers = number(3, told.number(_KINDS, kind)) + number(10, told.number(_NAMES, name))
    return number(9, _BEGIN) + numbers + noted


def _packet(stamp: int, event: bytes) -> bytes:
    flags = number(10, _CTA_SEQUENCE) + number(13, _NEEDED)
    return number(8, stamp) + flags + message(11, event)


_COUNTER = 4
"""Type of an event that holds a counter's value."""
_COUNTER_SEQUENCE = 3
_FIRST_DEVICE = 20_000_000
_FIRST_COUNTER_TRACK = 3 << 61
"""No track of a thread, of a stream or of a launch has such a number."""


def counter_packets(profile: Profile) -> bytes:
    """Return all packets: tracks, then values."""
    return b"".join(message(1, packet) for packet in _packets(profile))


def _packets(profile: Profile) -> Iterator[bytes]:
    explicit = 3
    for at, (name, counters) in enumerate(of_devices(profile)):
        above = _FIRST_COUNTER_TRACK + (at << 20)
        process = number(1, _FIRST_DEVICE + at) + text(6, name)
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
        yield number(8, time) + number(10, _COUNTER_SEQUENCE) + event


def varint(value: int) -> bytes:
    """Return a 64-bit number, 7 bits a byte, lowest first; negatives as two's complement."""
    digits = bytearray()
    value &= 0xFFFFFFFFFFFFFFFF
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    digits.append(value)
    return bytes(digits)


def tag(field: int, kind: int) -> bytes:
    """Return what precedes a value: field and kind (0 number, 1 8 bytes, 2 with a length)."""
    return varint(field << 3 | kind)


def number(field: int, value: int) -> bytes:
    """Return a number of 64 bits."""
    return tag(field, 0) + varint(value)


def message(field: int, content: bytes) -> bytes:
    """Return a message within a message."""
    return tag(field, 2) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """Return a text field."""
    return message(field, encodable(content).encode())
