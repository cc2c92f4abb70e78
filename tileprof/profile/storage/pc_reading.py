"""Reader of a profile's data about single instructions.

In: checked rows, and the profile's locations.  Out: `PcSamples`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

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
from tileprof.profile.storage import schema
from tileprof.profile.storage.database import Database


def read(database: Database, places: Sequence[Location]) -> PcSamples:
    """Return all that the tables hold; nothing where the file has none of them."""
    texts = database.rows(schema.PC_TEXTS).tuples()
    return PcSamples(
        _functions(database, places),
        tuple(database.rows(schema.PC_STALLS).values("name")),
        _rows(database),
        tuple(PcRecording(*row) for row in database.rows(schema.PC_RECORDINGS).tuples()),
        dict(database.rows(schema.PC_CUBINS).tuples()),
        {(module, form): PcText(content, note) for module, form, content, note in texts},
        _counts(database),
    )


def _counts(database: Database) -> InstructionCounts:
    names = database.rows(schema.INSTRUCTION_METRICS).values("name")
    recordings: dict[int, list[str]] = defaultdict(list)
    for recording, metric in database.rows(schema.INSTRUCTION_RECORDINGS).tuples():
        recordings[recording].append(names[metric])
    if not recordings:
        return InstructionCounts()
    rows = database.rows(schema.INSTRUCTION_COUNTS)
    columns = (rows.integers(name) for name in ("function", "offset", "metric", "count"))
    return InstructionCounts.added(names, list(recordings.values()), *columns)


def _rows(database: Database) -> PcRows:
    rows = database.rows(schema.PC_SAMPLES)
    names = ("function", "offset", "stall", "node", "samples")
    return PcRows.typed(*(rows.integers(name) for name in names))


def _functions(database: Database, places: Sequence[Location]) -> tuple[PcFunction, ...]:
    code, blames = _code(database, places), _blames(database)
    rows = enumerate(database.rows(schema.PC_FUNCTIONS).tuples())
    return tuple(
        PcFunction(name, title, module, chip, tuple(code[number]), tuple(blames[number]), note)
        for number, (name, title, module, chip, note) in rows
    )


def _code(database: Database, places: Sequence[Location]) -> dict[int, list[PcInstruction]]:
    found: dict[int, list[PcInstruction]] = defaultdict(list)
    for function, offset, text, place, depth in database.rows(schema.PC_INSTRUCTIONS).tuples():
        location = None if place < 0 else places[place]
        found[function].append(PcInstruction(offset, text, location, depth))
    return found


def _blames(database: Database) -> dict[int, list[PcBlame]]:
    found: dict[int, list[PcBlame]] = defaultdict(list)
    columns = ("function", "offset", "stall", "producer", "through")
    for function, *row in database.rows(schema.PC_BLAMES).tuples(*columns):
        found[function].append(PcBlame(*row))
    return found
