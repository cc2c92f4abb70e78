"""Damage to profile files: of bytes, and of values behind SQLite's back.

In: the bytes of a sound profile and a random generator.  Out: the bytes of a damaged one.  The same
generator state gives the same damage.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sqlite3
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any

from .mutants import change_json

__all__ = ["bomb", "mutated"]

_NUMBERS: tuple[Any, ...] = (
    None, 0, 1, -1, 2, 7, -7, 255, 2**31 - 1, 2**31, 2**32, -(2**31), 2**53, 2**62, 2**63 - 1,
    -(2**63), 0.5, -0.5, 1e-300, 1e18, 1e99, 1e300, float("inf"), float("-inf"), float("nan"),
)  # fmt: skip
_TEXTS: tuple[Any, ...] = (
    "", "x", "7", "1e400", "nan", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\nb", "\x00",
    "\u202egnp", "=1+1", "@SUM(A1)", "cuda:0", "cuda:", "cuda:-1", "cuda:x", ":", "kernel", "time",
    "share", "%", "A" * 30_000, "(" * 3000, "{" * 3000, "</script><b>", "a;b", "%s%n{0}",
    "sm_90a", "-" * 50, "é" * 500, "\U0001f600", "9" * 5000, "recorded 5 of 2", "0", "-3", "∞",
)  # fmt: skip
_BLOBS: tuple[Any, ...] = (
    b"", b"\0", b"\xff" * 40, b"text", zlib.compress(b""), zlib.compress(b"\0" * 8),
    zlib.compress(b"\xff" * 80), zlib.compress(b"\x80" * 7), zlib.compress(b"\xff\xfe text"),
)  # fmt: skip
_BOMB = 400_000_000
"""Bytes that a bomb inflates to; it is made once."""
_STEPS = 3000
"""Thousands of SQLite's instructions that the damage to one file may take."""


def mutated(content: bytes, chance: random.Random) -> bytes:
    """Return a damaged copy of a profile's bytes."""
    if chance.random() < 0.25:
        return _bytes_damaged(content, chance)
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(content)
        # Views without end are made here too, and must not be run by the damage that follows.
        steps = itertools.count()
        database.set_progress_handler(lambda: next(steps) > _STEPS, 1000)
        if chance.random() < 0.6:
            _unconstrained(database)
        for _ in range(chance.choice((1, 1, 1, 2, 3))):
            with contextlib.suppress(sqlite3.Error, OverflowError, IndexError):  # nothing to damage
                chance.choice(_DAMAGES)(database, chance)
        if chance.random() < 0.5:
            _conserved(database)
        with contextlib.suppress(sqlite3.Error):
            database.commit()
        return database.serialize()


def _bytes_damaged(content: bytes, chance: random.Random) -> bytes:
    held = bytearray(content)
    match chance.randrange(6):
        case 0:
            for _ in range(chance.choice((1, 2, 8, 40))):
                held[chance.randrange(len(held))] = chance.randrange(256)
        case 1:
            for _ in range(chance.choice((1, 4))):
                place = chance.randrange(len(held))
                held[place] ^= 1 << chance.randrange(8)
        case 2:
            del held[chance.randrange(len(held)) :]
        case 3:
            start, size = chance.randrange(len(held)), chance.choice((1, 16, 4096))
            source = chance.randrange(len(held))
            held[start : start + size] = content[source : source + size]
        case 4:
            held += chance.randbytes(chance.choice((1, 100, 4096)))
        case 5:
            # Pages change places: pointers between them form circles.
            a, b = (4096 * chance.randrange(len(held) // 4096) for _ in range(2))
            held[a : a + 4096], held[b : b + 4096] = held[b : b + 4096], held[a : a + 4096]
    return bytes(held)


def _unconstrained(database: sqlite3.Connection) -> None:
    """Take the constraints away, so that any value can be stored."""
    for words in (" NOT NULL", " INTEGER", " TEXT"):
        database.execute("PRAGMA writable_schema = ON")
        database.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, '') WHERE type = 'table' "
            "AND sql NOT LIKE '%WITHOUT ROWID%' AND NOT (? LIKE ' INT%' AND sql LIKE '%PRIMARY%')",
            (words, words),
        )
    database.commit()
    content = database.serialize()
    database.deserialize(content)


def _conserved(database: sqlite3.Connection) -> None:
    """Make the sums fit again, so that damage behind the check of sums is reached."""
    with contextlib.suppress(sqlite3.Error):
        database.execute(
            "UPDATE metrics SET whole = (SELECT sum(coalesce(own, 0) + coalesce(absorbed, 0)) "
            "FROM node_values WHERE metric = metrics.id) WHERE adds = 'sum'"
        )
        for law in ("min", "max"):
            database.execute(
                f"UPDATE metrics SET whole = (SELECT {law}(own) FROM node_values "
                f"WHERE metric = metrics.id) WHERE adds = '{law}'"
            )


def _table(database: sqlite3.Connection, chance: random.Random) -> tuple[str, list[str]]:
    names = database.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    ).fetchall()
    for _ in range(20):
        (name,) = chance.choice(names)
        if database.execute(f"SELECT 1 FROM {name} LIMIT 1").fetchone():
            break
    columns = [row[1] for row in database.execute(f"PRAGMA table_info({name})")]
    return name, [f'"{column}"' for column in columns]


def _value(chance: random.Random) -> Any:
    return chance.choice(chance.choice((_NUMBERS, _NUMBERS, _TEXTS, _BLOBS)))


def _where(
    database: sqlite3.Connection, table: str, columns: list[str], chance: random.Random
) -> tuple[str, tuple[Any, ...]]:
    """One row, or all of them."""
    if chance.random() < 0.15:
        return "", ()
    rows = database.execute(f"SELECT * FROM {table} LIMIT 500").fetchall()
    row = chance.choice(rows)
    return " WHERE " + " AND ".join(f"{column} IS ?" for column in columns), tuple(row)


def _update(database: sqlite3.Connection, chance: random.Random) -> None:
    table, columns = _table(database, chance)
    where, values = _where(database, table, columns, chance)
    column = chance.choice(columns)
    database.execute(f"UPDATE {table} SET {column} = ?{where}", (_value(chance), *values))


def _nudge(database: sqlite3.Connection, chance: random.Random) -> None:
    table, columns = _table(database, chance)
    where, values = _where(database, table, columns, chance)
    column = chance.choice(columns)
    change = chance.choice(("+ 1", "- 1", "* -1", "* 1000", "|| ' x'", "* 1e6", "* 0.5", "* 0"))
    database.execute(f"UPDATE {table} SET {column} = {column} {change}{where}", values)


def _swap(database: sqlite3.Connection, chance: random.Random) -> None:
    table, columns = _table(database, chance)
    rows = database.execute(f"SELECT * FROM {table} LIMIT 500").fetchall()
    a, b = chance.choice(rows), chance.choice(rows)
    column = chance.randrange(len(columns))
    where = " WHERE " + " AND ".join(f"{name} IS ?" for name in columns)
    for row, other in ((a, b), (b, a)):
        database.execute(f"UPDATE {table} SET {columns[column]} = ?{where}", (other[column], *row))


def _delete(database: sqlite3.Connection, chance: random.Random) -> None:
    table, columns = _table(database, chance)
    where, values = _where(database, table, columns, chance)
    database.execute(f"DELETE FROM {table}{where}", values)


def _duplicate(database: sqlite3.Connection, chance: random.Random) -> None:
    table, _ = _table(database, chance)
    row = list(chance.choice(database.execute(f"SELECT * FROM {table} LIMIT 500").fetchall()))
    for place in range(len(row)):
        if isinstance(row[place], int) and chance.random() < 0.5:
            row[place] += chance.choice((1, 1000))
    marks = ", ".join("?" * len(row))
    database.execute(f"INSERT INTO {table} VALUES ({marks})", row)


def _drop(database: sqlite3.Connection, chance: random.Random) -> None:
    table, columns = _table(database, chance)
    match chance.randrange(6):
        case 0:
            database.execute(f"DROP TABLE {table}")
        case 1:
            database.execute(f"ALTER TABLE {table} RENAME COLUMN {chance.choice(columns)} TO other")
        case 2:
            database.execute(f"ALTER TABLE {table} RENAME TO other_{table}")
            database.execute(f"CREATE VIEW {table} AS SELECT * FROM other_{table}")
        case 3:
            names = ", ".join(columns)
            ones = ", ".join("x" for _ in columns)
            database.execute(f"DROP TABLE {table}")
            database.execute(
                f"CREATE VIEW {table} ({names}) AS WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL "
                f"SELECT x + 1 FROM c) SELECT {ones} FROM c"
            )
        case 4:
            column = columns[-1]
            database.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
            database.execute(f"ALTER TABLE {table} ADD COLUMN {column} AS (1)")
        case 5:
            database.execute(
                f"CREATE TRIGGER t AFTER INSERT ON {table} BEGIN DELETE FROM {table}; END"
            )
            database.execute(f"CREATE INDEX i ON {table} ({', '.join(columns)})")


def _blob(database: sqlite3.Connection, chance: random.Random) -> None:
    held = [
        (table, column)
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for _, column, kind, *_ in database.execute(f"PRAGMA table_info({table})")
        if kind == "BLOB" and database.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
    ]
    if not held:
        return
    table, column = chance.choice(held)
    rows = database.execute(
        f'SELECT "{column}" FROM {table} WHERE "{column}" IS NOT NULL LIMIT 100'
    ).fetchall()
    if not rows:
        return
    (old,) = chance.choice(rows)
    if not isinstance(old, bytes):
        return
    database.execute(
        f'UPDATE {table} SET "{column}" = ? WHERE "{column}" IS ?',
        (_damaged_blob(old, chance), old),
    )


def _damaged_blob(old: bytes, chance: random.Random) -> bytes:
    try:
        inside = bytearray(zlib.decompress(old))
    except zlib.error:
        inside = bytearray(old)
    match chance.randrange(5):
        case 0:
            return bytes(old[: chance.randrange(len(old) + 1)])
        case 1:
            return bomb()
        case 2 | 3 if inside:
            for _ in range(chance.choice((1, 3, 20))):
                inside[chance.randrange(len(inside))] = chance.randrange(256)
            return zlib.compress(bytes(inside))
        case _:
            return zlib.compress(bytes(inside) * chance.choice((0, 2, 3)))


def _program(database: sqlite3.Connection, chance: random.Random) -> None:
    """Change a value in the program of a kernel, which is JSON."""
    rows = database.execute("SELECT rowid, content FROM kernel_ir").fetchall()
    if not rows:
        return
    number, content = chance.choice(rows)
    try:
        held = json.loads(zlib.decompress(content))
    except (ValueError, TypeError, zlib.error):
        return
    for _ in range(chance.choice((1, 1, 2))):
        change_json(held, chance)
    content = zlib.compress(json.dumps(held).encode())
    database.execute("UPDATE kernel_ir SET content = ? WHERE rowid = ?", (content, number))


@cache
def bomb() -> bytes:
    """Return bytes that inflate to 400 MB."""
    stream = zlib.compressobj(1)
    part = bytes(10_000_000)
    found = [stream.compress(part) for _ in range(_BOMB // len(part))]
    return b"".join([*found, stream.flush()])


_DAMAGES: tuple[Callable[[sqlite3.Connection, random.Random], None], ...] = (
    _update, _update, _update, _update, _update, _nudge, _nudge, _swap, _delete, _duplicate,
    _drop, _blob, _blob, _program,
)  # fmt: skip
