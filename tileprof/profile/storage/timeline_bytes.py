"""The columns of a timeline as bytes of a file, a few for each event.

In: columns.  Out: their bytes, which are: the numbers of a column, little-endian; first the lowest
byte of each, then the next; compressed by zlib. Numbers that grow are told by their differences.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError, ProfileFileError
from tileprof.profile.storage.inflate import inflated
from tileprof.profile.storage.limits import EVENTS, INFLATED_BYTES
from tileprof.profile.timeline import Timeline, TimelineEvents, Track

_LEVEL = 1
"""Compression level of zlib: higher ones take several times as long and save a tenth."""
_BYTES = {"start": 8, "duration": 8, "node": 4, "track": 4, "launch": 4}


def to_bytes(events: TimelineEvents) -> dict[str, bytes]:
    """Return the bytes of each column, by its name."""
    columns = {
        "start": np.diff(events.start, prepend=0),
        "duration": events.duration,
        "node": events.node,
        "track": events.track,
        "launch": np.where(events.launch < 0, 0, np.arange(len(events)) - events.launch),
    }
    return {name: packed(columns[name], size) for name, size in _BYTES.items()}


def from_bytes(tracks: tuple[Track, ...], columns: Mapping[str, bytes], nodes: int) -> Timeline:
    """Return the timeline of a file whose tree has so many nodes; it is read when asked for."""

    def make() -> TimelineEvents:
        try:
            events = _read(columns)
            Timeline.holding(tracks, events).check(nodes)
        except (KeyError, InternalError, ProfileFileError):
            raise ProfileFileError(
                "the profile's timeline is damaged",
                hint="Make it again with `tileprof run --timeline`; the rest of it can be read.",
            ) from None
        return events

    return Timeline(tracks, make) if tracks else Timeline()


def _read(columns: Mapping[str, bytes]) -> TimelineEvents:
    numbers = {
        name: unpacked(columns[name], size, f"column `{name}` of the timeline", EVENTS * size)
        for name, size in _BYTES.items()
    }
    if len({len(column) for column in numbers.values()}) != 1:
        raise ProfileFileError("the columns of the timeline are not of one length")
    back = numbers["launch"]
    launch = np.where(back == 0, -1, np.arange(len(back), dtype=np.int32) - back)
    return TimelineEvents.typed(
        np.cumsum(numbers["start"]),
        numbers["duration"],
        numbers["node"],
        numbers["track"],
        launch,
    )


def packed(column: npt.NDArray[np.integer], size: int) -> bytes:
    """Return the bytes of a column of numbers, each of so many bytes."""
    planes = column.astype(f"<i{size}").view(np.uint8).reshape(-1, size)
    return zlib.compress(np.ascontiguousarray(planes.T).data, _LEVEL)


def unpacked(
    content: bytes, size: int, what: str, limit: int = INFLATED_BYTES
) -> npt.NDArray[np.integer]:
    """Return the numbers of a column, each of `size` bytes.

    Raises `ProfileFileError`, which calls the column `what`, where its bytes are damaged or would
    take more than `limit` bytes.
    """
    held = inflated(content, what, limit)
    if len(held) % size:
        raise ProfileFileError(f"{what} ends within a number")
    planes = np.frombuffer(held, np.uint8).reshape(size, -1)
    return np.ascontiguousarray(planes.T).view(f"<i{size}").reshape(-1)
