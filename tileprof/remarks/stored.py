"""Statements as files and exports have them: a code, its facts as JSON, and its sentence.

In: a statement.  Out: `Stored`, and back.  A later version may write codes that this one does not
declare: what is read of such a statement is its sentence, and it is written again as it was.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeVar

from .codes import from_plain
from .common import OtherCandidate, OtherDecision, OtherReason
from .remark import Remark
from .statement import Candidate, Decision, Reason, UnknownCodeError, plain

_Kind = TypeVar("_Kind", Decision, Candidate, Reason)


class LaterDecision(OtherDecision):
    """A decision whose code nothing declares here; so no file can name this class by a code."""

    written: str
    """JSON of the statement as the later version wrote it."""


class LaterCandidate(OtherCandidate):
    """A candidate whose code nothing declares here."""

    written: str


class LaterReason(OtherReason):
    """A reason whose code nothing declares here."""

    written: str


_LATER: dict[type[Any], type[Any]] = {
    Decision: LaterDecision,
    Candidate: LaterCandidate,
    Reason: LaterReason,
}


class Stored(NamedTuple):
    """A statement as a file has it."""

    code: str
    facts: dict[str, Any]
    """Values that JSON has, keyed by the fact's name."""
    text: str
    """The sentence, on one line or several."""


def columns(name: str, statement: Decision | Candidate | Reason) -> dict[str, Any]:
    """Return a statement as three columns: `NAME_code`, `NAME_facts`, and its sentence `NAME`."""
    held = stored(statement)
    return {f"{name}_code": held.code, f"{name}_facts": held.facts, name: held.text}


def remark_json(remark: Remark) -> dict[str, Any]:
    """Return a remark as exports have it, without its place."""
    return {
        "op": remark.op,
        "name": remark.name,
        "severity": remark.severity,
        **columns("chosen", remark.decision),
        "rejected": [
            columns("candidate", each.candidate) | columns("reason", each.reason)
            for each in remark.rejected
        ],
    }


def stored(statement: Decision | Candidate | Reason) -> Stored:
    """Return a statement as files have it, also one of a later version."""
    if isinstance(statement, LaterDecision | LaterCandidate | LaterReason):
        held = json.loads(statement.written)
    else:
        held = plain(statement)
    return Stored(held["code"], held["facts"], str(statement))


def restored(kind: type[_Kind], held: Stored) -> _Kind:
    """Return the statement that a file has; ValueError where its facts are not those of its code.

    Where it names a code that nothing declares, its sentence stands for it.
    """
    try:
        return from_plain(kind, held.code, held.facts)
    except UnknownCodeError:
        written = json.dumps({"code": held.code, "facts": held.facts})
        later: _Kind = _LATER[kind](held.text, written)
        return later
