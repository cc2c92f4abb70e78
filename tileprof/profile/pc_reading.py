"""What a profile's database holds of single instructions.

In: an open database that has their tables, and its locations.  Out: `PcSamples`.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from tileprof.errors import Location
from tileprof.profile.instruction_counts import InstructionCounts
from tileprof.profile.pc_samples import (
    PcBlame,
    PcFunction,
    PcInstruction,
    PcRecording,
    PcRows,
    PcSamples,
    PcText,
)
from tileprof.profile.schema import has_table

_ROW = [("function", "i4"), ("offset", "i8"), ("stall", "i4"), ("node", "i4"), ("samples", "i8")]


def read(database: sqlite3.Connection, places: Mapping[int, Location]) -> PcSamples:
    """Return all that the tables hold."""
    recordings = database.execute(
        "SELECT period, mode, total, dropped, non_user, overflows FROM pc_recordings ORDER BY id"
    )
    return PcSamples(
        _functions(database, places),
        tuple(name for (name,) in database.execute("SELECT name FROM pc_stalls ORDER BY id")),
        _rows(database),
        tuple(PcRecording(*row) for row in recordings),
        dict(database.execute("SELECT sha256, content FROM pc_cubins").fetchall()),
        _texts(database),
        _counts(database),
    )


def _counts(database: sqlite3.Connection) -> InstructionCounts:
    if not has_table(database, "instruction_counts"):
        return InstructionCounts()
    names = [
        name for (name,) in database.execute("SELECT name FROM instruction_metrics ORDER BY id")
    ]
    recordings: dict[int, list[str]] = defaultdict(list)
    for recording, metric in database.execute(
        "SELECT recording, metric FROM instruction_recordings ORDER BY recording, metric"
    ):
        recordings[recording].append(names[metric])
    rows = database.execute('SELECT function, "offset", metric, count FROM instruction_counts')
    found = np.fromiter(rows, [(name, "i8") for name in ("function", "offset", "metric", "count")])
    columns = (found[name] for name in ("function", "offset", "metric", "count"))
    return InstructionCounts.added(names, list(recordings.values()), *columns)


def _texts(database: sqlite3.Connection) -> dict[tuple[str, str], PcText]:
    if not has_table(database, "pc_texts"):
        return {}
    rows = database.execute("SELECT module, form, content, note FROM pc_texts")
    return {(module, form): PcText(content, note) for module, form, content, note in rows}


def _rows(database: sqlite3.Connection) -> PcRows:
    found = np.fromiter(
        database.execute(
            'SELECT function, "offset", stall, coalesce(node, -1), samples FROM pc_samples'
            " ORDER BY rowid"
        ),
        _ROW,
    )
    return PcRows.typed(*(found[name] for name, _ in _ROW))


def _functions(
    database: sqlite3.Connection, places: Mapping[int, Location]
) -> tuple[PcFunction, ...]:
    code, blames = _code(database, places), _blames(database)
    return tuple(
        PcFunction(
            name, title, module, architecture, tuple(code[number]), tuple(blames[number]), note
        )
        for number, name, title, module, architecture, note in database.execute(
            "SELECT id, name, title, module, architecture, note FROM pc_functions ORDER BY id"
        )
    )


def _code(
    database: sqlite3.Connection, places: Mapping[int, Location]
) -> dict[int, list[PcInstruction]]:
    found: dict[int, list[PcInstruction]] = defaultdict(list)
    for function, offset, text, place, depth in database.execute(
        'SELECT function, "offset", text, location, depth FROM pc_instructions'
        ' ORDER BY function, "offset"'
    ):
        location = None if place is None else places[place]
        found[function].append(PcInstruction(offset, text, location, depth))
    return found


def _blames(database: sqlite3.Connection) -> dict[int, list[PcBlame]]:
    found: dict[int, list[PcBlame]] = defaultdict(list)
    for function, *row in database.execute(
        'SELECT function, "offset", stall, producer, through FROM pc_blames'
        " ORDER BY function, position"
    ):
        found[function].append(PcBlame(*row))
    return found
