"""Parts of nodes' numbers by thread and stream: sums, where a timeline has single events.

In: columns, one row for a node and a track.  Out: the same for another tree. Each recording has
them; `transform/tracks.py` divides trees by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError
from tileprof.profile.columns import Columns, within
from tileprof.profile.metrics import Index
from tileprof.profile.storage.limits import NANOSECONDS, TRACKS
from tileprof.profile.timeline import Track


@dataclass(frozen=True, slots=True, eq=False)
class TrackSums(Columns):
    """Columns with one entry a node and track, in this order."""

    node: npt.NDArray[np.int32]
    track: npt.NDArray[np.int32]
    events: npt.NDArray[np.int64]
    """Launches, visits or samples."""
    time: npt.NDArray[np.int64]
    """Own time of the node's in ns."""


@dataclass(frozen=True, slots=True)
class TrackTotals:
    """Tracks, and the parts of nodes that they have; no tracks where a profile does not know."""

    tracks: tuple[Track, ...] = ()
    sums: TrackSums = field(default_factory=TrackSums.none)

    @staticmethod
    def of(
        tracks: Sequence[Track], node: Index, track: Index, events: Index, time: Index
    ) -> TrackTotals:
        """Return totals of rows in any order, those of one node and track added up.

        Tracks after the first ones that a file can hold become one for each kind.
        """
        if len(tracks) > TRACKS:
            tracks, to = _fewer(tracks)
            track = to[np.asarray(track, np.int64)]
        key = np.asarray(node, np.int64) * max(len(tracks), 1) + np.asarray(track, np.int64)
        keys, place = np.unique(key, return_inverse=True)
        sums = np.zeros((2, len(keys)), np.int64)
        for row, values in zip(sums, (events, time)):
            np.add.at(row, place.reshape(-1), np.asarray(values, np.int64))
        made = TrackSums.typed(keys // max(len(tracks), 1), keys % max(len(tracks), 1), *sums)
        return TrackTotals(tuple(tracks), made)

    @staticmethod
    def joined(parts: Sequence[TrackTotals], starts: Sequence[int]) -> TrackTotals:
        """Return the totals of profiles side by side, whose nodes begin at `starts`.

        Nothing where one of them has none: the tracks of its nodes are not known.
        """
        if not parts or not all(part.tracks for part in parts):
            return TrackTotals()
        tracks = list(dict.fromkeys(track for part in parts for track in part.tracks))
        numbers = {track: number for number, track in enumerate(tracks)}
        columns: list[list[npt.NDArray[np.int64]]] = [[], [], [], []]
        for part, start in zip(parts, starts):
            to = np.array([numbers[track] for track in part.tracks], np.int64)
            sums = part.sums
            rows = (sums.node.astype(np.int64) + start, to[sums.track], sums.events, sums.time)
            for column, values in zip(columns, rows):
                column.append(values)
        return TrackTotals.of(tracks, *map(np.concatenate, columns))

    def moved(self, to: Index) -> TrackTotals:
        """Return the totals of another tree: node `i` is `to[i]` there, -1 drops its rows."""
        if not self.tracks:
            return self
        node = to[self.sums.node]
        kept = node >= 0
        sums = self.sums
        columns = (node, sums.track, sums.events, sums.time)
        return TrackTotals.of(self.tracks, *(column[kept] for column in columns))

    def check(self, nodes: int) -> None:
        """Raise `InternalError` where a row refers to what does not exist."""
        sums = self.sums
        if not sums.is_even():
            raise InternalError("the columns of the tracks' totals are not of one length")
        limits = ((sums.node, 0, nodes), (sums.track, 0, len(self.tracks)),
                  (sums.events, 0, NANOSECONDS), (sums.time, 0, NANOSECONDS))  # fmt: skip
        if not within(limits):
            raise InternalError("a total of a track refers to what does not exist")


def _fewer(tracks: Sequence[Track]) -> tuple[list[Track], Index]:
    """Return as many tracks as a file can hold, and the place of each given one among them."""
    kinds = list(dict.fromkeys(track.kind for track in tracks))
    kept = TRACKS - len(kinds)
    others = [Track(kind, f"other {kind}s", 0) for kind in kinds]
    to = np.arange(len(tracks))
    to[kept:] = [kept + kinds.index(track.kind) for track in tracks[kept:]]
    return [*tracks[:kept], *others], to
