"""Shared parts of the Arrow tables: types of columns, places in the source, free names."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import pyarrow as pa

from tileprof.errors import Location
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
