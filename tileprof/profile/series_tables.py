"""Hardware counters over time in a profile's database.

In: series, or an open database.  Out: rows of their tables, or the series.  Columns are bytes in
the form of those of a timeline (`timeline_bytes.py`), values as the bits of 32-bit floats.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tileprof.errors import InternalError, ProfileFileError
from tileprof.profile.series import CounterSeries, SeriesMetric
from tileprof.profile.timeline_bytes import packed, unpacked

__all__ = ["SERIES_SCHEMA", "column_rows", "read", "series_rows"]

SERIES_SCHEMA = """
CREATE TABLE counter_series (
    id INTEGER PRIMARY KEY,
    device TEXT NOT NULL,
    interval INTEGER NOT NULL,
    start BLOB NOT NULL,
    duration BLOB NOT NULL
);
CREATE TABLE counter_columns (
    series INTEGER NOT NULL REFERENCES counter_series (id),
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (series, position)
) WITHOUT ROWID;
"""
"""What files with hardware counters over time have beside; others need no room for it."""


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


def read(database: sqlite3.Connection) -> tuple[CounterSeries, ...]:
    """Return all that the tables hold; `ProfileFileError` where they are damaged."""
    rows = database.execute(
        "SELECT id, device, interval, start, duration FROM counter_series ORDER BY id"
    ).fetchall()
    columns = "SELECT name, unit, content FROM counter_columns WHERE series = ? ORDER BY position"
    try:
        return tuple(
            _series(device, interval, start, duration, database.execute(columns, (number,)))
            for number, device, interval, start, duration in rows
        )
    except (zlib.error, ValueError, InternalError):
        raise ProfileFileError(
            "the profile's hardware counters over time are damaged",
            hint="Make it again with `tileprof run --pm-sampling`.",
        ) from None


def _series(
    device: str, interval: int, start: bytes, duration: bytes,
    columns: Iterable[tuple[str, str, bytes]],
) -> CounterSeries:  # fmt: skip
    held = list(columns)
    made = CounterSeries.of(
        device,
        interval,
        np.cumsum(unpacked(start, 8)),
        unpacked(duration, 8),
        tuple(SeriesMetric(name, unit) for name, unit, _ in held),
        [unpacked(content, 4).view(np.float32) for *_, content in held],
    )
    made.check()
    return made
