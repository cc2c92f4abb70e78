"""A profile's timeline as formats of traces want it: rows of slices that nest, and call paths.

In: a profile with single events.  Out: rows, for each event its row, and what begins and ends when.
A row is a track, or a part of one: what overlaps without nesting, as kernels of a graph's branches
or scopes of tasks, goes to rows of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tileprof.once import cached_property
from tileprof.profile import Profile, TimelineEvents, Track
from tileprof.viewer.exports.layout import called
from tileprof.viewer.text import encodable

_Ints: TypeAlias = npt.NDArray[np.int64]


def has_slices(profile: Profile) -> bool:
    """Return whether single events were recorded."""
    timeline = profile.tables.timeline
    return bool(timeline.tracks) and len(timeline.events) > 0


@dataclass(frozen=True)
class Slices:
    """The events of a profile's timeline, by their place in it."""

    profile: Profile

    @cached_property
    def events(self) -> TimelineEvents:
        """The events, in order of their start."""
        return self.profile.tables.timeline.events

    @cached_property
    def rows(self) -> list[str]:
        """The names of the rows: threads first, then streams, each with what overlaps in it."""
        return self._placed[0]

    @cached_property
    def row(self) -> _Ints:
        """Row of each event."""
        return self._placed[1]

    @cached_property
    def _placed(self) -> tuple[list[str], _Ints]:
        names: list[str] = []
        row = np.zeros(len(self.events), np.int64)
        for number, track in enumerate(self.profile.tables.timeline.tracks):
            on_track = np.flatnonzero(self.events.track == number)
            lane = _lanes(self.events, on_track, track)
            row[on_track] = lane + len(names)
            lanes = range(2, int(lane.max(initial=0)) + 2)
            names += [track.name, *(f"{track.name} ({each})" for each in lanes)]
        return [encodable(name) for name in names], row

    def changes(self) -> tuple[_Ints, _Ints, npt.NDArray[np.bool_]]:
        """Return what begins and ends in order: the events, the times, whether it is an end.

        In a row, what began last ends first.
        """
        events, count = self.events, len(self.events)
        index = np.arange(count)
        nothing = events.duration == 0
        times = np.concatenate([events.start, events.start + events.duration])
        # At one time: first the ends of what began before, inner ones first; then what begins, and
        # ends at once.
        begins_now = np.concatenate([np.ones(count, bool), nothing])
        turn = np.concatenate([2 * index, np.where(nothing, 2 * index + 1, -2 * index)])
        order = np.lexsort((turn, begins_now, times))
        return order % max(count, 1), times[order], order >= count

    def launched(self) -> Iterable[tuple[int, int]]:
        """Return pairs of a launching call and what it launched."""
        found = np.flatnonzero(self.events.launch >= 0)
        return zip(self.events.launch[found].tolist(), found.tolist())

    @cached_property
    def nodes(self) -> list[int]:
        """The nodes that have events."""
        found: list[int] = np.unique(self.events.node).tolist()
        return found

    @cached_property
    def names(self) -> list[str]:
        """Names of nodes, with the phase where one begins."""
        return [encodable(name) for name in called(self.profile)]

    def path(self, node: int) -> str:
        """Return the names from the top level down to a node, with places in the source."""
        return " > ".join(self._whereabouts(each) for each in self.profile.path(node))

    def _whereabouts(self, node: int) -> str:
        name, place = self.names[node], self.profile.locations[node]
        if place is None:
            return name
        return f"{name} ({encodable(place.short)})"


def _lanes(events: TimelineEvents, on_track: _Ints, track: Track) -> _Ints:
    """Return the first row in which each event of a track fits: inside or after the others."""
    start = events.start[on_track]
    end = start + events.duration[on_track]
    lane = np.zeros(len(on_track), np.int64)
    if (start[1:] >= np.maximum.accumulate(end)[:-1]).all():
        return lane
    nests = track.kind == "thread"
    open_until: list[list[int]] = [[]]
    for at, (begin, stop) in enumerate(zip(start.tolist(), end.tolist())):
        number = _free(open_until, begin, stop if nests else None)
        open_until[number].append(stop)
        lane[at] = number
    return lane


def _free(open_until: list[list[int]], begin: int, stop: int | None) -> int:
    """Return the first row where all that is open lasts until `stop`; a new one if none."""
    for number, ends in enumerate(open_until):
        while ends and ends[-1] <= begin:
            ends.pop()
        if not ends or (stop is not None and stop <= ends[-1]):
            return number
    open_until.append([])
    return len(open_until) - 1
