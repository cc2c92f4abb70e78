"""CTAs' timelines as packets of Perfetto's trace, beside those of the timeline.

In: a profile with timelines of CTAs.  Out: bytes of packets, in a sequence of their own: a process
for each launch, a track for each warp and for each row of asynchronous work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tileprof.profile import Profile
from tileprof.viewer.exports.cta_slices import CtaProcess, CtaRow, CtaSlice, processes
from tileprof.viewer.exports.protobuf import message, number, text

_BEGIN, _END = 1, 2
_CLEARED, _NEEDED = 1, 2
_SEQUENCE = 2
_FIRST_PROCESS = 10_000_000
_FIRST_TRACK = 1 << 62
"""No track of a thread or of a stream has such a number."""
_KINDS, _NAMES, _NOTES, _TEXTS = 1, 2, 3, 29
"""Fields of texts written once: categories, names, names of notes, texts of notes."""


class _Told:
    """Texts by number, from 1."""

    def __init__(self) -> None:
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
        return number(10, _SEQUENCE) + number(13, _CLEARED) + message(12, b"".join(told))


def cta_packets(profile: Profile) -> bytes:
    """Return all packets: tracks, texts, slices."""
    made, told = list(processes(profile)), _Told()
    tracks = list(_tracks(made))
    slices = bytearray()
    for uuid, row in tracks:
        for packet in _slices(uuid, row, told):
            slices += message(1, packet)
    head = b"".join(message(1, packet) for packet in _descriptors(made))
    return head + message(1, told.packet()) + bytes(slices)


def _tracks(made: Iterable[CtaProcess]) -> Iterator[tuple[int, CtaRow]]:
    """Yield all rows with the numbers of their tracks."""
    for at, process in enumerate(made):
        for rank, row in enumerate(process.rows, 1):
            yield _track(at, rank), row


def _track(process: int, rank: int) -> int:
    return _FIRST_TRACK + (process << 20) + rank


def _descriptors(made: Iterable[CtaProcess]) -> Iterator[bytes]:
    explicit = 3
    for at, process in enumerate(made):
        above = _track(at, 0)
        about = number(1, _FIRST_PROCESS + at) + text(6, process.name)
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
            begin = known[id(each.notes)] = _begin(each, told) + track
        yield _packet(each.begin, begin)
        opened.append(each.end)
    while opened:
        yield _packet(opened.pop(), end)


def _begin(each: CtaSlice, told: _Told) -> bytes:
    notes = b"".join(
        message(4, number(1, told.number(_NOTES, name)) + number(17, told.number(_TEXTS, note)))
        for name, note in each.notes.items()
    )
    kind, name = told.number(_KINDS, each.kind), told.number(_NAMES, each.name)
    return number(9, _BEGIN) + number(3, kind) + number(10, name) + notes


def _packet(stamp: int, event: bytes) -> bytes:
    flags = number(10, _SEQUENCE) + number(13, _NEEDED)
    return number(8, stamp) + flags + message(11, event)
