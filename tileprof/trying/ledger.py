"""The ledger: one line of JSON for each trial, in a file beside the project.

In: trials.  Out: lines at the end of the file, and `Entry`s read from it. Lines are only added,
each in one write, so several processes may write to one file.

    {"schema": 1, "when", "program", "tileprof", "torch", "device", "fixes": [{"fix", "fix_facts",
     "text"}], "finding", "predicted": [low, mid, high] | null,
     "measured": {"speedup", "low", "high", "level"} | null, "unit": "step" | "run",
     "pairs": [[[original_ns, changed_ns], …], …],
     "results": {"tolerance", "compared", "equal",
                 "checks": [{"kind", "count", "difference", "allowed"}]} | null,
     "verdict", "why", "doubts": [{"code", "facts"}], "seconds"}

A difference that is not finite is null.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

from tileprof.analyzer.findings import Gain
from tileprof.analyzer.fixes import fix_json
from tileprof.bench.intervals import LEVEL, Interval
from tileprof.errors import OutputError, ProfileFileError

from .comparing import Comparison
from .orders import TriedProgram
from .outcomes import Trial

SCHEMA = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""
Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a ledger, as far as views need it."""

    when: str
    program: str
    device: str
    changes: tuple[str, ...]
    """Description in words."""
    finding: str
    predicted: Gain | None
    measured: Interval | None
    verdict: str
    why: str
    results: str
    """`same`, `different` or `not compared`."""


def trial_json(trial: Trial, program: TriedProgram) -> Document:
    """Return a trial as JSON objects, with when and where it was made."""
    from tileprof import __version__

    candidate, predicted = trial.candidate, trial.candidate.predicted
    return {
        "schema": SCHEMA,
        "when": datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        "program": str(program),
        "tileprof": __version__,
        "torch": trial.circumstances.torch or None,
        "device": trial.circumstances.device or None,
        "fixes": [fix_json(each) for each in candidate.fixes],
        "finding": candidate.finding or None,
        "predicted": predicted and [predicted.low, predicted.mid, predicted.high],
        "measured": _interval(trial.measured),
        "unit": trial.unit,
        "pairs": [[list(each) for each in pair.rounds] for pair in trial.pairs],
        "results": _results(trial.comparison, trial.tolerance),
        "verdict": trial.verdict,
        "why": trial.why,
        "doubts": [{"code": d.code, "facts": dict(d.facts)} for d in trial.doubts],
        "seconds": trial.seconds,
    }


def _interval(found: Interval | None) -> Document | None:
    if found is None:
        return None
    return {"speedup": found.value, "low": found.low, "high": found.high, "level": LEVEL}


def _results(found: Comparison | None, tolerance: float) -> Document | None:
    if found is None:
        return None
    return {
        "tolerance": tolerance,
        "compared": found.compared,
        "equal": found.equal,
        "checks": [
            {
                "kind": each.kind,
                "count": each.count,
                "difference": each.difference if math.isfinite(each.difference) else None,
                "allowed": each.allowed,
            }
            for each in found.checks
        ],
    }


def add(path: Path, document: Document) -> None:
    """Add a line to a ledger; OutputError where it cannot be written."""
    line = json.dumps(document, allow_nan=False) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # One write to a file that is open for appending goes to its end as a whole.
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        with os.fdopen(handle, "wb", buffering=0) as file:
            file.write(line.encode())
    except OSError as error:
        raise OutputError(
            f"the ledger `{path}` cannot be written: {error.strerror}",
            hint="Name another file: --ledger FILE.",
        ) from None


def documents(path: Path) -> Iterator[Document]:
    """Yield the lines of a ledger; ProfileFileError for one that is none of this schema."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileFileError(f"`{path}` cannot be read as a ledger: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            held = json.loads(line)
            schema = held["schema"]
        except (ValueError, TypeError, KeyError):
            raise ProfileFileError(
                f"{path}:{number}: this is not a line of a ledger of trials",
                hint="Remove the line, or name another file: --ledger FILE.",
            ) from None
        if schema != SCHEMA:
            raise ProfileFileError(
                f"{path}:{number}: schema {schema} is not the one of this version, {SCHEMA}",
                hint="Read it with the version of tileprof that wrote it, or use another file.",
            )
        yield held


def entry(held: Document) -> Entry:
    """Return what views need of a line."""
    measured, results = held["measured"], held["results"]
    compared = results is not None and results["compared"]
    return Entry(
        held["when"],
        held["program"],
        held["device"] or "",
        tuple(each["text"] for each in held["fixes"]),
        held["finding"] or "",
        held["predicted"] and Gain(*held["predicted"]),
        None
        if measured is None
        else Interval(measured["speedup"], measured["low"], measured["high"]),
        held["verdict"],
        held["why"],
        ("same" if results["equal"] else "different") if compared else "not compared",
    )
