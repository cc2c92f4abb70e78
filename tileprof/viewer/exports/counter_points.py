"""Hardware counters over time as traces want them: values that hold until the next one.

In: a profile with series.  Out: for each device its counters, each as times and values. Where
nothing was sampled for a while, and at the end, a counter is 0: traces know no other end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tileprof.profile import CounterSeries, Profile


@dataclass(frozen=True, slots=True)
class CounterPoints:
    """One counter of one device."""

    name: str
    unit: str
    times: npt.NDArray[np.int64]
    """Times in ns."""
    values: npt.NDArray[np.float64]


def has_counters(profile: Profile) -> bool:
    """Return whether hardware counters were sampled."""
    return any(len(series) for series in profile.tables.series)


def of_devices(profile: Profile) -> Iterator[tuple[str, list[CounterPoints]]]:
    """Yield the counters of each series, by what its process is called."""
    for series in profile.tables.series:
        if len(series):
            yield f"counters of {series.device}", list(_counters(series))


def _counters(series: CounterSeries) -> Iterator[CounterPoints]:
    end = series.start + series.duration
    ends = np.append(series.start[1:] > end[:-1] + series.duration[:-1] // 2, True)
    times = np.concatenate([series.start, end[ends]])
    order = np.argsort(times, kind="stable")
    for metric, column in zip(series.metrics, series.values):
        values = np.concatenate([np.nan_to_num(column.astype(np.float64)), np.zeros(ends.sum())])
        yield CounterPoints(metric.name, metric.unit, times[order], values[order])
