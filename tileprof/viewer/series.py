"""Hardware counters over time as views need them: over columns of time, and where they are extreme.

In: a series of a profile.  Out: its means over equal parts of its time; its highest and its lowest
stretch, with what ran on the device meanwhile where the profile has a timeline.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.errors import UsageError
from tileprof.once import cached_property
from tileprof.profile import CounterSeries, Profile, TimelineEvents

STRETCHES = 50
"""Number of parts into which a series is cut to find the extreme ones."""
_LEAST_ROWS = 4
"""Smallest number of rows in a part, where the series has enough."""
_BUSY = 0.5
"""Smallest busy share of a part for which its counters can count as low."""

_Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Ran:
    """Work that ran in a stretch."""

    name: str
    scope: str
    """The innermost scope around it, '' where there is none."""
    share: float
    """Share of the stretch's time; works that overlap each count in full."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a series' time, in ns since its begin."""

    begin: int
    end: int
    mean: float
    ran: tuple[Ran, ...] = ()
    """Works by share, largest first; empty where the profile has no timeline, or nothing ran."""


class SeriesView:
    """View of one series of counters."""

    def __init__(self, profile: Profile, series: CounterSeries) -> None:
        self.profile, self.series = profile, series
        self.begin = int(series.start[0]) if len(series) else 0
        self.end = int((series.start + series.duration)[-1]) if len(series) else 0

    @property
    def length(self) -> int:
        """Time from the first row to the end of the last, in ns."""
        return self.end - self.begin

    def means(self, metric: int, parts: int) -> _Floats:
        """Return the mean of a metric in each of equal parts of the time; NaN without samples."""
        edges = np.linspace(self.begin, self.end, parts + 1)
        sums, times = np.zeros(parts), np.zeros(parts)
        values = self.series.values[metric].astype(np.float64)
        known = np.isfinite(values)
        start = self.series.start[known].astype(np.float64)
        end = start + self.series.duration[known]
        first = np.clip(np.searchsorted(edges, start, "right") - 1, 0, parts - 1)
        last = np.clip(np.searchsorted(edges, end, "left") - 1, 0, parts - 1)
        # A row lies in few parts: most in one, since parts are longer than rows.
        for step in range(int((last - first).max(initial=-1)) + 1):
            at = np.minimum(first + step, last)
            inside = np.minimum(end, edges[at + 1]) - np.maximum(start, edges[at])
            inside = np.where(first + step <= last, np.maximum(inside, 0), 0)
            np.add.at(sums, at, values[known] * inside)
            np.add.at(times, at, inside)
        means: _Floats = np.divide(sums, times, out=np.full(parts, np.nan), where=times > 0)
        return means

    def numbers(self, metric: int) -> tuple[float, float, float]:
        """Return mean, least and most of the rows' values; NaN where there are none."""
        known = self.series.values[metric][np.isfinite(self.series.values[metric])]
        if not known.size:
            return math.nan, math.nan, math.nan
        return self.series.mean(metric), float(known.min()), float(known.max())

    def highest(self, metric: int) -> Stretch | None:
        """Return the stretch with the highest mean; None where there are no values."""
        means = self.means(metric, self._parts)
        return self._stretch(means, int(np.nanargmax(means))) if np.isfinite(means).any() else None

    def lowest(self, metric: int) -> Stretch | None:
        """Return the stretch with the lowest mean, of those in which the device had work where that
        is known; None where there is none beside the highest."""
        means = self.means(metric, self._parts)
        known = np.isfinite(means) & (self._busy >= _BUSY)
        if known.sum() < 2 or np.ptp(means[known]) == 0:
            return None
        return self._stretch(means, int(np.nanargmin(np.where(known, means, np.nan))))

    @property
    def _parts(self) -> int:
        return max(min(STRETCHES, len(self.series) // _LEAST_ROWS), 1)

    def _stretch(self, means: _Floats, part: int) -> Stretch:
        edges = np.linspace(self.begin, self.end, len(means) + 1)
        begin, end = round(edges[part]), round(edges[part + 1])
        ran = self._ran(begin, end)
        return Stretch(begin - self.begin, end - self.begin, float(means[part]), ran)

    @cached_property
    def _work(self) -> TimelineEvents | None:
        """Work that ran on the device; None where that is not known."""
        timeline = self.profile.tables.timeline
        tracks = [
            number
            for number, track in enumerate(timeline.tracks)
            if track.kind == "stream" and f"cuda:{track.device}" == self.series.device
        ]
        if not tracks:
            return None
        events = timeline.events
        kept = np.isin(events.track, tracks)
        columns = (events.start, events.duration, events.node, events.track, events.launch)
        return TimelineEvents.typed(*(column[kept] for column in columns))

    @cached_property
    def _busy(self) -> _Floats:
        """Share of each part's time in which something ran; 1 where that is not known."""
        if self._work is None:
            return np.ones(self._parts)
        edges = np.linspace(self.begin, self.end, self._parts + 1)
        start, end = self._work.start, self._work.start + self._work.duration
        # Without what overlaps: an event counts from the end of all before it on.
        reached = np.maximum.accumulate(np.concatenate([[0], end]))[:-1]
        start = np.maximum(start, reached)
        spent = np.concatenate([[0], np.cumsum(np.maximum(end - start, 0))])
        until = [self._spent_until(edge, start, end, spent) for edge in edges.tolist()]
        return np.diff(np.array(until)) / np.diff(edges)

    @staticmethod
    def _spent_until(
        time: float, start: npt.NDArray[np.int64], end: npt.NDArray[np.int64],
        spent: npt.NDArray[np.int64],
    ) -> float:  # fmt: skip
        before = int(np.searchsorted(start, time))
        if not before:
            return 0.0
        beyond = max(float(end[before - 1]) - time, 0.0)
        return float(spent[before]) - min(beyond, float(spent[before] - spent[before - 1]))

    def _ran(self, begin: int, end: int) -> tuple[Ran, ...]:
        if self._work is None:
            return ()
        work = self._work
        inside = np.minimum(work.start + work.duration, end) - np.maximum(work.start, begin)
        times = np.bincount(work.node, np.maximum(inside, 0))
        by_name: dict[tuple[str, str], float] = defaultdict(float)
        for node in np.flatnonzero(times).tolist():
            by_name[self.profile.names[node], self._scope(node)] += float(times[node])
        most = sorted(by_name.items(), key=lambda item: -item[1])
        return tuple(Ran(name, scope, time / (end - begin)) for (name, scope), time in most)

    def _scope(self, node: int) -> str:
        scopes = [each for each in self.profile.path(node) if self.profile.kinds[each] == "scope"]
        return self.profile.names[scopes[-1]] if scopes else ""


def series_views(profile: Profile) -> list[SeriesView]:
    """Return the series of a profile; UsageError where there are none."""
    views = [SeriesView(profile, each) for each in profile.tables.series if len(each)]
    if not views:
        raise UsageError(
            "the profile has no hardware counters over time",
            hint="Record some with `tileprof run --pm-sampling`.",
        )
    return views


def shown_columns(view: SeriesView, names: Sequence[str]) -> list[int]:
    """Return the columns that are asked for by name, all where none is; UsageError for others."""
    known = [metric.name for metric in view.series.metrics]
    for name in names:
        if name not in known:
            raise UsageError(
                f"the profile has no counter `{name}` over time", hint=f"It has {', '.join(known)}."
            )
    return [known.index(name) for name in names] or list(range(len(known)))
