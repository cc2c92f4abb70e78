"""Arrow tables of GPU counts: samples and counts of instructions, counters over time.

In: a profile, and for counts and counters the columns that fit all profiles of an export.  Out: a
table of each.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tileprof.errors import Location, UsageError
from tileprof.profile import CounterSeries, PcSamples, Profile
from tileprof.viewer.text import encodable

Row: TypeAlias = dict[str, Any]
Fields: TypeAlias = list[tuple[str, pa.DataType]]

INT, LONG, TEXT = pa.int32(), pa.int64(), pa.string()
PLACE: Fields = [("file", TEXT), ("line", INT), ("function", TEXT)]


def place_of(place: Location | None) -> Row:
    """Return the columns of `PLACE`; those that are unknown are None or missing."""
    if place is None:
        return {}
    return {
        "file": encodable(place.file),
        "line": place.line or None,
        "function": encodable(place.function) or None,
    }


def names_of(fields: Fields) -> set[str]:
    """Return the column names already taken; every table has `profile` and `rank`."""
    return {name for name, _ in fields} | {"profile", "rank"}


def free_name(name: str, taken: set[str], suffixes: Collection[str] = ("",)) -> str:
    """`name` with as many `_` as make it and its forms unlike all others; capitals do not count.

    They are put into `taken`.
    """
    while any((name + suffix).casefold() in taken for suffix in suffixes):
        name += "_"
    taken.update((name + suffix).casefold() for suffix in suffixes)
    return name


def number_field(name: str, kind: pa.DataType, **about: str) -> pa.Field:
    """Return a column of numbers with metadata about them: metric, unit, and so on."""
    metadata = {key: encodable(text) for key, text in about.items()}
    return pa.field(encodable(name), kind, metadata=metadata)


_INSTRUCTION: Fields = [
    ("kernel", TEXT), ("mangled", TEXT), ("module", TEXT), ("architecture", TEXT),
    ("offset", LONG), ("sass", TEXT), ("depth", INT), *PLACE,
]  # fmt: skip
_PC_SAMPLE: Fields = [
    *_INSTRUCTION, ("stall", TEXT), ("counted", pa.bool_()), ("node", INT), ("samples", LONG),
]  # fmt: skip
_SERIES: Fields = [
    ("series", INT), ("device", TEXT), ("interval_ns", LONG), ("start_ns", LONG),
    ("end_ns", LONG),
]  # fmt: skip


def count_fields(profiles: Sequence[Profile]) -> dict[str, pa.Field]:
    """Return the columns of all that was counted by instruction, by metric."""
    taken = names_of(_INSTRUCTION)
    names = {name for profile in profiles for name in profile.tables.pc.counts.metrics}
    return {
        name: number_field(free_name(name, taken), LONG, metric=name, unit="1", adds="sum")
        for name in sorted(names)
    }


def counter_fields(profiles: Sequence[Profile]) -> dict[str, pa.Field]:
    """Return the columns of counters over time, by metric; UsageError where units differ."""
    units: dict[str, str] = {}
    for series in (each for profile in profiles for each in profile.tables.series):
        for metric in series.metrics:
            unit = units.setdefault(metric.name, metric.unit)
            if unit != metric.unit:
                raise UsageError(
                    f"the counter `{metric.name}` over time is in {metric.unit} here and in "
                    f"{unit} there",
                    hint="Export profiles that agree; those that were merged, each by itself.",
                )
    taken = names_of(_SERIES)
    return {
        name: number_field(free_name(name, taken), pa.float32(), metric=name, unit=unit)
        for name, unit in sorted(units.items())
    }


def pc_samples(profile: Profile) -> pa.Table:
    """Return a row for an instruction, a stall reason and a node."""
    held = profile.tables.pc
    rows = held.rows
    stalls = pa.array([encodable(name) for name in held.stalls], TEXT)
    arrays = _instructions(held, rows.function, rows.offset) | {
        "stall": stalls.take(pa.array(rows.stall)),
        "counted": held.is_counted[rows.stall] if len(rows) else [],
        "node": [None if node < 0 else node for node in rows.node.tolist()],
        "samples": rows.samples,
    }
    return _table(arrays, pa.schema(_PC_SAMPLE))


def instruction_counts(profile: Profile, fields: Mapping[str, pa.Field]) -> pa.Table:
    """Return a row for an instruction; a metric that no run of the profile counted is null."""
    held = profile.tables.pc
    counts = held.counts
    arrays = _instructions(held, counts.function, counts.offset) | {
        field.name: counts.column(name) if name in counts.metrics else pa.nulls(len(counts), LONG)
        for name, field in fields.items()
    }
    return _table(arrays, _schema(_INSTRUCTION, fields))


def counter_series(profile: Profile, fields: Mapping[str, pa.Field]) -> pa.Table:
    """Return a row for a stretch of time on a device; a counter that had no value then is null."""
    schema = _schema(_SERIES, fields)
    parts = [
        _table(_stretches(number, series, fields), schema)
        for number, series in enumerate(profile.tables.series)
    ]
    return pa.concat_tables([schema.empty_table(), *parts])


def _stretches(number: int, series: CounterSeries, fields: Mapping[str, pa.Field]) -> Row:
    count = len(series)
    known = {metric.name: values for metric, values in zip(series.metrics, series.values)}
    return {
        "series": np.full(count, number),
        "device": [encodable(series.device)] * count,
        "interval_ns": np.full(count, series.interval),
        "start_ns": series.start,
        "end_ns": series.start + series.duration,
        **{
            field.name: pa.array(known[name], field.type, from_pandas=True)
            if name in known
            else pa.nulls(count, field.type)
            for name, field in fields.items()
        },
    }


def _instructions(
    held: PcSamples, function: npt.NDArray[np.int32], offset: npt.NDArray[np.int64]
) -> Row:
    """Return the columns of `_INSTRUCTION`; each text is read once."""
    codes = [{each.offset: each for each in function.code} for function in held.functions]
    found = [codes[f].get(at) for f, at in zip(function.tolist(), offset.tolist())]
    places = [place_of(each.place if each is not None else None) for each in found]
    attributes = {
        "kernel": "title", "mangled": "name", "module": "module", "architecture": "architecture"
    }  # fmt: skip
    texts = {
        name: pa.array([encodable(getattr(f, attribute)) or None for f in held.functions], TEXT)
        for name, attribute in attributes.items()
    }
    return {
        **{name: known.take(pa.array(function)) for name, known in texts.items()},
        "offset": offset,
        "sass": [None if each is None else each.text for each in found],
        "depth": [None if each is None else each.depth for each in found],
        **{name: [place.get(name) for place in places] for name, _ in PLACE},
    }


def _schema(first: Fields, numbers: Mapping[str, pa.Field]) -> pa.Schema:
    return pa.schema([*(pa.field(name, kind) for name, kind in first), *numbers.values()])


def _table(arrays: Row, schema: pa.Schema) -> pa.Table:
    columns = [pa.array(arrays[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)
