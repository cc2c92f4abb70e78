"""Timeline of single events on tracks, besides the tree that adds them up.

In: columns of events, each at a node of the tree.  Out: the same for another tree.  Columns are
made when they are first asked for: most uses of a profile never look at its timeline.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError
from tileprof.once import cached_property
from tileprof.profile.columns import Columns, within
from tileprof.profile.metrics import Index
from tileprof.profile.storage.limits import NANOSECONDS


@dataclass(frozen=True, slots=True)
class Track:
    """Sequence of events, one after the other: a stream of a device, or a thread of the host."""

    kind: Literal["stream", "thread"]
    name: str
    number: int
    """Number of the stream, or `threading.get_ident()` of the thread."""
    device: int = -1
    """Number of the stream's device; -1 for a thread."""


@dataclass(frozen=True, slots=True, eq=False)
class TimelineEvents(Columns):
    """Columns with one entry an event, in order of `start`."""

    start: npt.NDArray[np.int64]
    """Starts in ns, on the clock of `time.perf_counter_ns()` of the machine that ran the
    program."""
    duration: npt.NDArray[np.int64]
    node: npt.NDArray[np.int32]
    track: npt.NDArray[np.int32]
    launch: npt.NDArray[np.int32]
    """Index of the call that launched an event on a device; -1 if unknown."""

    @staticmethod
    def of(start: Any, duration: Any, node: Any, track: Any, launch: Any) -> TimelineEvents:
        """Return columns of these values in order of their start; longer events come first."""
        order = np.lexsort((np.negative(duration), start))
        place = np.full(len(order) + 1, -1, np.int64)
        place[order] = np.arange(len(order))
        columns = (np.asarray(each)[order] for each in (start, duration, node, track))
        return TimelineEvents.typed(*columns, place[np.asarray(launch, np.int64)][order])


class Timeline:
    """Tracks and the events on them; there are no tracks where no timeline was recorded."""

    def __init__(
        self, tracks: Sequence[Track] = (), make: Callable[[], TimelineEvents] = TimelineEvents.none
    ) -> None:
        self.tracks = tuple(tracks)
        self._make = make

    @staticmethod
    def holding(tracks: Sequence[Track], events: TimelineEvents) -> Timeline:
        """Return a timeline of events that are there already."""
        return Timeline(tracks, lambda: events)

    @cached_property
    def events(self) -> TimelineEvents:
        """The events; `ProfileFileError` where the file they come from is damaged."""
        return self._make()

    def moved(self, to: Index) -> Timeline:
        """Return the timeline of another tree: node `i` is `to[i]` there, -1 drops its events."""
        if not self.tracks:
            return self
        target = to.copy()
        return Timeline(self.tracks, lambda: _moved(self.events, target))

    def check(self, nodes: int) -> None:
        """Raise `InternalError` where an event refers to what does not exist."""
        events = self.events
        if not events.is_even():
            raise InternalError("the columns of the timeline are not of one length")
        limits = ((events.node, 0, nodes), (events.track, 0, len(self.tracks)))
        if not within((*limits, (events.launch, -1, len(events)))):
            raise InternalError("an event of the timeline refers to what does not exist")
        if (np.diff(events.start) < 0).any() or (events.duration < 0).any():
            raise InternalError("the events of the timeline are not in order")
        if len(events) and not (
            events.start[0] >= 0 and max(events.start[-1], events.duration.max()) <= NANOSECONDS
        ):
            raise InternalError("an event of the timeline is at no time of a clock")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timeline):
            return NotImplemented
        return self.tracks == other.tracks and self.events == other.events

    __hash__ = None  # type: ignore[assignment] # compared by value, and holds arrays

    def __reduce__(self) -> tuple[Any, ...]:
        return (Timeline.holding, (self.tracks, self.events))

    def __repr__(self) -> str:
        return f"Timeline({len(self.tracks)} tracks)"


def _moved(events: TimelineEvents, to: Index) -> TimelineEvents:
    node = to[events.node].astype(np.int32)
    kept = node >= 0
    if kept.all():
        return replace(events, node=node)
    place = np.where(kept, np.cumsum(kept) - 1, -1)
    launch = np.append(place, -1)[events.launch]
    columns = (events.start, events.duration, node, events.track, launch)
    return TimelineEvents.typed(*(column[kept] for column in columns))
