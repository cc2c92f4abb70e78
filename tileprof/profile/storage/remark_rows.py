"""Remarks from the rows of a file, every code and fact checked against its declaration.

In: the checked columns of `remarks` and `rejections`.  Out: `Remark`s with the number of their
kernel; `ProfileFileError` where a fact is missing, unknown or of another type.  A code that nothing
declares is one of a later version: the statement keeps its sentence.  Files of version 1 hold
sentences alone, which are turned into codes.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tileprof.errors import Location, ProfileFileError
from tileprof.profile.storage import limits, schema
from tileprof.profile.storage.database import Database, Rows
from tileprof.profile.storage.plain_text import clean_text
from tileprof.remarks import Candidate, Decision, Reason, Rejection, Remark
from tileprof.remarks.older import remark_of
from tileprof.remarks.stored import Stored, restored

_CODES = 2
"""Version of the format from which on remarks have codes."""
_Kind = TypeVar("_Kind", Decision, Candidate, Reason)


def read(database: Database, places: Sequence[Location]) -> Iterator[tuple[int, Remark]]:
    """Yield the number of the kernel and the remark, in the order of the file."""
    make = _of_codes if database.version >= _CODES else _of_sentences
    return make(database, lambda place: None if place < 0 else places[place])


def _of_codes(
    database: Database, place_of: Callable[[int], Location | None]
) -> Iterator[tuple[int, Remark]]:
    rejected = defaultdict[int, list[Rejection]](list)
    rows = database.rows(schema.REJECTIONS)
    candidates, reasons = (
        _statements(Candidate, rows, "candidate"),
        _statements(Reason, rows, "reason"),
    )
    for number, candidate, reason in zip(rows.values("remark"), candidates, reasons):
        rejected[number].append(Rejection(candidate, reason))
    rows = database.rows(schema.REMARKS)
    about = rows.tuples("kernel", "op", "name", "location", "severity")
    decisions = _statements(Decision, rows, "chosen")
    for number, ((kernel, op, name, at, severity), decision) in enumerate(zip(about, decisions)):
        against = tuple(rejected[number])
        yield kernel, Remark(decision, op, name, place_of(at), against, severity)


def _of_sentences(
    database: Database, place_of: Callable[[int], Location | None]
) -> Iterator[tuple[int, Remark]]:
    rejected = defaultdict[int, list[tuple[str, str]]](list)
    pairs = database.rows(schema.REJECTIONS).tuples("remark", "candidate", "reason")
    for number, candidate, reason in pairs:
        rejected[number].append((candidate, reason))
    columns = ("kernel", "op", "location", "chosen", "severity")
    rows = enumerate(database.rows(schema.REMARKS).tuples(*columns))
    for number, (kernel, op, at, chosen, severity) in rows:
        yield kernel, remark_of(op, place_of(at), chosen, rejected[number], severity)


def _statements(kind: type[_Kind], rows: Rows, name: str) -> Iterator[_Kind]:
    """Yield the statements of the columns of a name."""
    known = dict[tuple[str, str, str], _Kind]()
    for row in rows.tuples(f"{name}_code", f"{name}_facts", name):
        code, facts, text = row
        try:
            if row not in known:
                held = _clean(json.loads(facts))
                if not isinstance(held, dict):
                    raise ValueError("they are no object")
                known[row] = restored(kind, Stored(code, held, text))
            yield known[row]
        except (ValueError, RecursionError) as error:
            raise ProfileFileError(
                f"`{name}_facts` of a remark are none of `{code:.60}` ({error!s:.200})"
            ) from None


def _clean(value: Any, depth: int = 0) -> Any:
    """JSON without control characters in its texts; ValueError where it nests too deeply."""
    if depth > limits.ATTRIBUTE_NESTING:
        raise ValueError("they nest too deeply")
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {clean_text(name): _clean(each, depth + 1) for name, each in value.items()}
    return value
