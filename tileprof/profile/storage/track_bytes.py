"""The columns of tracks' totals as bytes of a file, in the form of those of a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import numpy as np

from tileprof.errors import InternalError, ProfileFileError
from tileprof.profile.storage.limits import EVENTS
from tileprof.profile.storage.timeline_bytes import packed, unpacked
from tileprof.profile.timeline import Track
from tileprof.profile.track_totals import TrackSums, TrackTotals

_BYTES = {"node": 4, "track": 4, "events": 8, "time": 8}


def to_bytes(sums: TrackSums) -> dict[str, bytes]:
    """Return the bytes of each column, by its name."""
    columns = dict(zip((each.name for each in fields(sums)), sums.columns()))
    columns["node"] = np.diff(sums.node, prepend=0)
    return {name: packed(columns[name], size) for name, size in _BYTES.items()}


def from_bytes(tracks: tuple[Track, ...], columns: Mapping[str, bytes], nodes: int) -> TrackTotals:
    """Return the totals of a file whose tree has so many nodes.

    Raises `ProfileFileError` where they are damaged.
    """
    if not tracks:
        return TrackTotals()
    try:
        held = {
            name: unpacked(columns[name], size, f"column `{name}` of the tracks", EVENTS * size)
            for name, size in _BYTES.items()
        }
        held["node"] = np.cumsum(held["node"])
        totals = TrackTotals(tracks, TrackSums.typed(*held.values()))
        totals.check(nodes)
    except (KeyError, InternalError):
        raise ProfileFileError("the profile's totals of threads and streams are damaged") from None
    return totals
