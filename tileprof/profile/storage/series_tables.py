"""Hardware counters over time in a profile's database.

In: series, or an open database.  Out: rows of their tables, or the series.  Columns are bytes in
the form of those of a timeline (`timeline_bytes.py`), values as the bits of 32-bit floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from tileprof.errors import ProfileFileError
from tileprof.profile.series import CounterSeries, SeriesMetric
from tileprof.profile.storage.database import Database
from tileprof.profile.storage.limits import INFLATED_BYTES
from tileprof.profile.storage.schema import COUNTER_COLUMNS, COUNTER_SERIES
from tileprof.profile.storage.timeline_bytes import packed, unpacked


def series_rows(series: Sequence[CounterSeries]) -> Iterator[tuple[object, ...]]:
    """Return the rows of `counter_series`."""
    for number, each in enumerate(series):
        start = packed(np.diff(each.start, prepend=0), 8)
        yield number, each.device, each.interval, start, packed(each.duration, 8)


def column_rows(series: Sequence[CounterSeries]) -> Iterator[tuple[object, ...]]:
    """Return the rows of `counter_columns`."""
    for number, each in enumerate(series):
        for position, (metric, values) in enumerate(zip(each.metrics, each.values)):
            content = packed(np.ascontiguousarray(values).view(np.int32), 4)
            yield number, position, metric.name, metric.unit, content


def read(database: Database) -> tuple[CounterSeries, ...]:
    """Return all that the tables hold; `ProfileFileError` where they are damaged."""
    columns: list[list[tuple[str, str, bytes]]] = [
        [] for _ in range(len(database.rows(COUNTER_SERIES)))
    ]
    for number, _, name, unit, content in database.rows(COUNTER_COLUMNS).tuples():
        columns[number].append((name, unit, content))
    room = INFLATED_BYTES
    found = []
    rows = database.rows(COUNTER_SERIES).tuples()
    for (device, interval, start, duration), held in zip(rows, columns):
        begins = np.cumsum(unpacked(start, 8, "`counter_series.start`", room))
        room -= begins.nbytes * (2 + len(held) // 2)
        found.append(_series(device, interval, begins, duration, held))
    return tuple(found)


def _series(
    device: str, interval: int, start: npt.NDArray[np.int64], duration: bytes,
    columns: Sequence[tuple[str, str, bytes]],
) -> CounterSeries:  # fmt: skip
    lengths = unpacked(duration, 8, "`counter_series.duration`")
    values = [
        unpacked(content, 4, "`counter_columns.content`").view(np.float32)
        for *_, content in columns
    ]
    if any(len(each) != len(start) for each in (lengths, *values)):
        raise ProfileFileError(f"the counters of {device} are not of one length")
    metrics = tuple(SeriesMetric(name, unit) for name, unit, _ in columns)
    made = CounterSeries.of(device, interval, start, lengths, metrics, values)
    made.check()
    return made
