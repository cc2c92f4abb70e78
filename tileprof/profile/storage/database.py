"""Rows of a profile's database that have been checked against the schema.

In: the path of a SQLite database that may come from anyone.  Out: columns whose values have the
declared types and ranges, and refer to rows that exist; `ProfileFileError` with the table and the
column where they do not.

The database is never trusted: only tables are read, never views, virtual tables or computed columns
in their place; nothing but reading is authorised; and time, rows and bytes have limits.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from tileprof.errors import ProfileFileError
from tileprof.profile.storage import limits
from tileprof.profile.storage.plain_text import clean_lines, clean_texts
from tileprof.profile.storage.schema import TABLES, Field, Table, Type, quoted

Integers = npt.NDArray[np.int64]

_TYPES: dict[Type, tuple[type, ...]] = {
    "integer": (int,),
    "number": (int, float),
    "line": (str,),
    "text": (str,),
    "value": (int, float, str),
    "bytes": (bytes,),
}
_CHUNK = 10_000
"""Rows that are fetched at once: a file that has too many is refused before they fill memory."""
_STEPS = 20_000
"""SQLite's instructions between two looks at the clock, some tenths of a millisecond."""
_LIMITS = (
    (sqlite3.SQLITE_LIMIT_LENGTH, limits.INFLATED_BYTES),
    (sqlite3.SQLITE_LIMIT_COLUMN, 100),
    (sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 50),
    (sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 2),
    (sqlite3.SQLITE_LIMIT_ATTACHED, 0),
    (sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 1),
    (sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0),
)
_WHOLE = b"0123456789-,"
_FUNCTIONS = {"coalesce", "group_concat", "typeof", "count"}
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ}


@contextlib.contextmanager
def opened(path: str, size: int) -> Iterator[Database]:
    """Open a file of `size` bytes for reading; raises `ProfileFileError` where it is damaged."""
    # Immutable: a file is replaced, never changed, so no lock or journal is needed beside it.
    location = f"file:{quote(path)}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(location, uri=True)) as connection:
            _defend(connection)
            yield Database(connection, size)
    except (sqlite3.Error, OverflowError, UnicodeDecodeError) as error:
        if "interrupted" in str(error):
            raise ProfileFileError(
                f"its tables take longer than {limits.READ_SECONDS:g} s to read"
            ) from None
        raise ProfileFileError(f"its tables cannot be read ({error})") from None


def _defend(connection: sqlite3.Connection) -> None:
    """Let a database do nothing but give its rows, in limited time and room."""
    # Processor time: a sound file takes long by the clock where other programs take the processors.
    until = time.thread_time() + limits.READ_SECONDS
    connection.set_progress_handler(lambda: time.thread_time() > until, _STEPS)
    for category, limit in _LIMITS:
        connection.setlimit(category, limit)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        connection.execute(f"PRAGMA {pragma}")
    if hasattr(connection, "setconfig"):  # from Python 3.12 on
        for name, is_on in (("DEFENSIVE", True), ("ENABLE_VIEW", False), ("ENABLE_TRIGGER", False)):
            connection.setconfig(getattr(sqlite3, f"SQLITE_DBCONFIG_{name}"), is_on)


def _authorize(
    action: int, first: str | None, second: str | None, _base: str | None, _inner: str | None
) -> int:
    is_known = action == sqlite3.SQLITE_FUNCTION and second in _FUNCTIONS
    return sqlite3.SQLITE_OK if action in _READING or is_known else sqlite3.SQLITE_DENY


class Rows:
    """The checked columns of a table, all of one length."""

    def __init__(self, table: Table, columns: Mapping[str, Any], count: int) -> None:
        self._table = table
        self._columns = columns
        self._count = count

    def __len__(self) -> int:
        return self._count

    def integers(self, name: str) -> Integers:
        """Return a column of whole numbers or of places in the table that it refers to."""
        found: Integers = self._columns[name]
        return found

    def column(self, name: str) -> Any:
        """Return a column of numbers: an array of whole ones where all are, else a list."""
        return self._columns[name]

    def values(self, name: str) -> list[Any]:
        """Return a column as Python's own values; -1, NaN or None where a cell is NULL."""
        found = self._columns[name]
        listed: list[Any] = found.tolist() if isinstance(found, np.ndarray) else found
        return listed

    def tuples(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Return the rows with these columns; without names, with all but `id`, in their order."""
        known = (field.name for field in self._table.fields if field.name != "id")
        return zip(*(self.values(name) for name in names or known))


class Database:
    """The tables of an open file; each is read and checked when it is first asked for."""

    def __init__(self, connection: sqlite3.Connection, size: int) -> None:
        self._connection = connection
        self._room = size
        """Bytes of texts that the file can still hold: overlapping pages repeat without end."""
        self._read: dict[str, Rows] = {}
        self._ids: dict[str, Integers] = {}
        self.version: int = connection.execute("PRAGMA user_version").fetchone()[0]
        """Version of the format that the file says it has."""
        self._tables = self._checked_tables()
        connection.set_authorizer(_authorize)

    def _checked_tables(self) -> set[str]:
        """Names of the tables that can be read; raises where one is no plain table."""
        known = {table.name: table for table in TABLES}
        found = set()
        rows = self._connection.execute(
            "SELECT name, type, rootpage, sql FROM sqlite_master WHERE type <> 'index'"
        )
        for name, kind, page, sql in rows:
            table = known.get(str(name).lower())
            if table is None:
                continue
            words = str(sql).upper().split(None, 2)
            if kind != "table" or words[:2] != ["CREATE", "TABLE"] or not page:
                raise ProfileFileError(f"`{table.name}` is not a plain table")
            found.add(table.name)
            self._check_columns(table)
        for table in TABLES:
            if table.required and table.name not in found:
                raise ProfileFileError(f"it has no table `{table.name}`")
        return found

    def _check_columns(self, table: Table) -> None:
        """Raise where a table lacks a column, or computes one."""
        found = self._connection.execute(f"PRAGMA table_xinfo({table.name})").fetchall()
        stored = {str(name) for _, name, _, _, _, _, hidden in found if not hidden}
        if len(stored) != len(found):
            raise ProfileFileError(f"`{table.name}` has computed columns")
        for field in table.fields:
            if field.name not in stored and field.since <= self.version:
                raise ProfileFileError(f"`{table.name}` has no column `{field.name}`")

    def has(self, table: Table) -> bool:
        """Return whether there is a table that older files, or those with less in them, lack."""
        return table.name in self._tables

    def rows(self, table: Table) -> Rows:
        """Return all rows in the order of the table's key; none where the file lacks the table."""
        if table.name not in self._read:
            if not self.has(table):
                empty = {field.name: self._column(table, field, []) for field in table.fields}
                return Rows(table, empty, 0)
            rows = self.selected(table, table.fields)
            self._check_order(table, rows)
            self._read[table.name] = rows
        return self._read[table.name]

    def selected(
        self, table: Table, fields: Sequence[Field], where: str = "", *values: int
    ) -> Rows:
        """Return some columns of the rows that fulfil a condition."""
        # An index of the file's own must not decide the order of rows.
        source = f"FROM {table.name} NOT INDEXED {where}"
        stored = [field for field in fields if field.since <= self.version]
        packed = [field for field in stored if self._is_whole(field, source, values)]
        others = [field for field in stored if field not in packed]
        cells = self._packed(table, packed, source, values)
        # What is not whole after all is fetched like texts, or refused there.
        others += [field for field in packed if field.name not in cells]
        cells |= self._fetched(table, others, source, values)
        if len({len(column) for column in cells.values()}) > 1:
            raise ProfileFileError(f"the columns of `{table.name}` differ in length")
        count = len(cells[stored[0].name])
        cells |= {field.name: [""] * count for field in fields if field not in stored}
        made = {field.name: self._column(table, field, cells[field.name]) for field in fields}
        return Rows(table, made, count)

    def _is_whole(self, field: Field, source: str, values: Sequence[int]) -> bool:
        """Return whether a column holds whole numbers, as far as its first row says."""
        if field.type == "integer":
            return True
        if field.type != "number":
            return False
        first = self._connection.execute(
            f"SELECT typeof({quoted(field.name)}) {source} LIMIT 1", values
        ).fetchone()
        return first is None or first[0] == "integer"

    def _packed(
        self, table: Table, fields: Sequence[Field], source: str, values: Sequence[int]
    ) -> dict[str, Any]:
        """Columns of whole numbers by name, without those that hold anything else.

        SQLite writes each column as one text and NumPy reads it, in a third of the time that rows
        of Python objects take.
        """
        if not fields:
            return {}
        texts = ", ".join(f"group_concat({_or_null(field)})" for field in fields)
        count, *columns = self._connection.execute(
            f"SELECT count(*), {texts} {source}", values
        ).fetchone()
        if count > table.rows:
            raise _too_many(table)
        found = {}
        for field, text in zip(fields, columns):
            if count == 0:
                found[field.name] = np.zeros(0, np.int64)
            elif _holds_whole_numbers(text, count):
                found[field.name] = np.fromstring(text, np.int64, sep=",")
        return found

    def _fetched(
        self, table: Table, fields: Sequence[Field], source: str, values: Sequence[int]
    ) -> dict[str, Any]:
        """Columns by name, as lists of Python's values of the declared types."""
        if not fields:
            return {}
        order = f"ORDER BY {', '.join(map(quoted, table.key))}" if table.key else ""
        names = ", ".join(quoted(field.name) for field in fields)
        cursor = self._connection.execute(f"SELECT {names} {source} {order}", values)
        columns: list[list[Any]] = [[] for _ in fields]
        while rows := cursor.fetchmany(_CHUNK):
            for field, column, part in zip(fields, columns, zip(*rows)):
                self._check_types(table, field, part)
                column += part
            if len(columns[0]) > table.rows:
                raise _too_many(table)
        return {field.name: column for field, column in zip(fields, columns)}

    def _check_types(self, table: Table, field: Field, cells: Sequence[Any]) -> None:
        allowed = _TYPES[field.type]
        found = set(map(type, cells))
        if field.null:
            found.discard(type(None))
        if not found.issubset(allowed):
            raise _refused(table, field, "holds a value of another type")
        if field.type in ("line", "text", "bytes", "value"):
            sizes = [len(cell) for cell in cells if isinstance(cell, (str, bytes))]
            if max(sizes, default=0) > field.high:
                raise _refused(table, field, f"holds more than {field.high:,} characters")
            self._room -= sum(sizes)
            if self._room < 0:
                raise ProfileFileError("it holds more text than it has bytes")

    def _column(self, table: Table, field: Field, cells: Any) -> Any:
        match field.type:
            case "integer":
                return self._integers(table, field, cells)
            case "number":
                return _numbers(table, field, cells)
            case "line":
                if field.choices and not set(cells).issubset(field.choices):
                    raise _refused(table, field, "holds an unknown word")
                if field.unique and len(set(cells)) != len(cells):
                    raise _refused(table, field, "holds a value twice")
                return clean_lines(cells)
            case "text":
                return clean_texts(cells)
            case "value":
                return _attributes(table, field, cells)
            case "bytes":
                return cells

    def _integers(self, table: Table, field: Field, cells: Any) -> Integers:
        if field.null and not isinstance(cells, np.ndarray):
            cells = [-1 if cell is None else cell for cell in cells]
        column = np.asarray(cells, np.int64)
        if field.refers:
            return self._places(table, field, column)
        low = -1 if field.null else field.low
        if column.size and not (column.min() >= low and column.max() <= field.high):
            raise _refused(table, field, f"is outside {low:g} to {field.high:g}")
        if field.name == "id" and table.key == ("id",):
            self._ids[table.name] = column
        return column

    def _places(self, table: Table, field: Field, column: Integers) -> Integers:
        """Return the places of rows that a column names by their ids; -1 for NULL."""
        ids = self._ids_of(field.refers)
        if not column.size:
            return column
        low, high = int(column.min()), int(column.max())
        if ids.size and ids[-1] == ids.size - 1:
            places = column  # ids that ascend from 0 on are places already
            exist = low >= (-1 if field.null else 0) and high < ids.size
        else:
            places = np.searchsorted(ids, column)
            known = np.append(ids, -2)[places] == column
            places = np.where(known, places, -1)
            exist = bool((known | ((column == -1) if field.null else False)).all())
        if not exist:
            raise _refused(table, field, f"refers to no row of `{field.refers}`")
        if field.earlier and (places >= np.arange(len(places))).any():
            raise _refused(table, field, "refers to a row below its own")
        return places

    def _ids_of(self, name: str) -> Integers:
        if name not in self._ids:
            self.rows(next(table for table in TABLES if table.name == name))
        return self._ids.get(name, np.zeros(0, np.int64))

    def _check_order(self, table: Table, rows: Rows) -> None:
        """Raise where keys of numbers do not ascend: pages that overlap give rows twice."""
        if not table.key or any(table.field(name).type != "integer" for name in table.key):
            return
        check_ascending(table, [rows.integers(name) for name in table.key])


def _or_null(field: Field) -> str:
    """SQL for a cell of whole numbers: -1 in place of NULL where that may be there."""
    name = quoted(field.name)
    return f"coalesce({name}, -1)" if field.null and field.type == "integer" else name


def _holds_whole_numbers(text: str | None, count: int) -> bool:
    """Return whether a text has exactly so many whole numbers, with commas between them."""
    if not text or text.count(",") != count - 1 or text.encode().translate(None, _WHOLE):
        return False
    signs = text.count(",-") + text.startswith("-")
    is_cut = ",," in text or "-," in text or text[0] == "," or text[-1] in ",-"
    return text.count("-") == signs and not is_cut


def check_ascending(table: Table, keys: Sequence[Integers]) -> None:
    """Raise `ProfileFileError` where rows do not ascend strictly by these columns."""
    later = np.zeros(max(len(keys[0]) - 1, 0), bool)
    for key in reversed(keys):
        before, after = key[:-1], key[1:]
        later = (after > before) | ((after == before) & later)
    if not later.all():
        raise ProfileFileError(f"the rows of `{table.name}` are not in order")


def _numbers(table: Table, field: Field, cells: Any) -> Any:
    """Return the same numbers where all are in range; NaN for NULL."""
    if not isinstance(cells, np.ndarray):
        cells = [math.nan if cell is None else cell for cell in cells]
    column = np.asarray(cells, np.float64)
    known = column[~np.isnan(column)]
    if known.size and not (known.min() >= field.low and known.max() <= field.high):
        raise _refused(table, field, f"is outside {field.low:g} to {field.high:g}")
    return cells


def _attributes(table: Table, field: Field, cells: Sequence[Any]) -> list[str | int | float]:
    """Attributes of kernels: texts cleaned, numbers in range, NaN for NULL."""
    found: list[str | int | float] = []
    for cell in cells:
        if isinstance(cell, str):
            found += clean_texts([cell])
        elif cell is None:
            found.append(math.nan)
        elif abs(cell) <= limits.MAGNITUDE:
            found.append(cell)
        else:
            raise _refused(table, field, f"is beyond {limits.MAGNITUDE:g}")
    return found


def _refused(table: Table, field: Field, what: str) -> ProfileFileError:
    return ProfileFileError(f"`{table.name}.{field.name}` {what}")


def _too_many(table: Table) -> ProfileFileError:
    return ProfileFileError(f"`{table.name}` has more than {table.rows:,} rows")
