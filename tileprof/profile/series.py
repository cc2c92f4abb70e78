"""Counters over time: what a device's hardware counters said at each of many moments; its memory.

In: columns of rows, each a stretch of time with the mean of every metric over it.  Out: the same,
checked, and the mean over any stretch.  Times are on the clock of the profile's timeline, so that a
series lies beside the events on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.errors import InternalError
from tileprof.profile.storage.limits import NANOSECONDS


@dataclass(frozen=True, slots=True)
class SeriesMetric:
    """Description of a column of a series."""

    name: str
    unit: str
    """`share` (0 to 1), `bytes`, `bytes/s`, `hz`, `1/s` or `1`."""


@dataclass(frozen=True, slots=True, eq=False)
class CounterSeries:
    """The counters of one device in one run; rows in order of time, which do not overlap."""

    device: str
    """Device as kernels name it: `cuda:0`."""
    interval: int
    """ns between two samples. A row is made of one or, in a long run, of several."""
    start: npt.NDArray[np.int64]
    """Starts in ns, on the clock of `time.perf_counter_ns()` of the machine that ran the
    program."""
    duration: npt.NDArray[np.int64]
    metrics: tuple[SeriesMetric, ...]
    values: npt.NDArray[np.float32]
    """Means over the rows' times, or the most in them for memory, by metric, then by row; NaN for
    missing values."""

    def __len__(self) -> int:
        return len(self.start)

    @staticmethod
    def of(
        device: str, interval: int, start: Any, duration: Any,
        metrics: tuple[SeriesMetric, ...], values: Any,
    ) -> CounterSeries:  # fmt: skip
        """Return a series of these columns, as the numbers that they are of here."""
        shape = (len(metrics), len(start))
        return CounterSeries(
            device, interval, np.asarray(start, np.int64), np.asarray(duration, np.int64),
            metrics, np.asarray(values, np.float32).reshape(shape),
        )  # fmt: skip

    def since(self, begin: int) -> CounterSeries:
        """Return the rows that begin from a time on, in ns."""
        kept = self.start >= begin
        return CounterSeries(
            self.device, self.interval, self.start[kept], self.duration[kept], self.metrics,
            self.values[:, kept],
        )  # fmt: skip

    def mean(self, metric: int) -> float:
        """Return the mean of a metric over all time in which it had a value; NaN if it had none."""
        known = np.isfinite(self.values[metric])
        time = float(self.duration[known].sum())
        weighted = float((self.values[metric][known] * self.duration[known]).sum())
        return weighted / time if time else float("nan")

    def check(self) -> None:
        """Raise `InternalError` where rows are not in order, or columns not of one length."""
        if self.start.shape != self.duration.shape or self.start.ndim != 1:
            raise InternalError(
                f"the columns of the counters of {self.device} are not of one length"
            )
        if self.values.shape != (len(self.metrics), len(self)):
            raise InternalError(f"the counters of {self.device} have values for other rows")
        if not self.metrics or not np.isfinite(self.values[~np.isnan(self.values)]).all():
            raise InternalError(f"the counters of {self.device} have no values, or infinite ones")
        if len(self) and not (self.start[0] >= 0 and self.start[-1] <= NANOSECONDS):
            raise InternalError(f"the counters of {self.device} are at no time of a clock")
        if (
            (self.duration <= 0).any()
            or (self.duration > NANOSECONDS).any()
            or (self.start[1:] < self.start[:-1]).any()
        ):
            raise InternalError(f"the counters of {self.device} are not in order of time")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CounterSeries):
            return NotImplemented
        return (
            (self.device, self.interval, self.metrics)
            == (other.device, other.interval, other.metrics)
            and np.array_equal(self.start, other.start)
            and np.array_equal(self.duration, other.duration)
            and np.array_equal(self.values, other.values, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment] # compared by value, and holds arrays
