"""Samples and counts of instructions as data for scripts: functions with their code, lines.

In: a profile and the choices of a reader.  Out: one line of JSON. Nothing is left out unless a
threshold was asked for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tileprof.errors import Location
from tileprof.profile import Profile
from tileprof.viewer.code.instruction_columns import CountColumn, Sums, count_columns
from tileprof.viewer.code.line_costs import line_costs
from tileprof.viewer.code.pc_functions import SeenFunction, SeenInstruction, seen_functions
from tileprof.viewer.data import view_document
from tileprof.viewer.options import ViewOptions
from tileprof.viewer.text import encodable

_SCHEMA = 1


def sass_json(profile: Profile, options: ViewOptions) -> str:
    """Return functions with samples or counts, hottest first; `include` selects by name."""
    columns = count_columns(profile.tables.pc.counts)
    held = profile.tables.pc
    least = (options.threshold or 0) / 100
    document = {
        "schema": _SCHEMA,
        "samples": int(held.counted.sum()),
        "recordings": [asdict(each) for each in held.recordings],
        **_counted(profile),
        "functions": [
            _function(each, least, columns)
            for each in seen_functions(profile, options.include, options.exclude)
        ],
    }
    return json.dumps(document) + "\n"


def lines_json(profile: Profile, options: ViewOptions) -> str:
    """Return the JSON of the tree, and `lines`: own values of the metrics, samples by stall reason.

    Lines are there where the metrics add up; `options` hold for both.
    """
    document = view_document(profile, options)
    costs = line_costs(profile, options)
    columns = count_columns(profile.tables.pc.counts)
    places = sorted({*costs.weights, *((f, n) for f, lines in costs.costs.items() for n in lines)})
    document |= {
        "samples": costs.samples,
        "recordings": [asdict(each) for each in profile.tables.pc.recordings],
        **_counted(profile),
        "lines": [
            {
                "file": encodable(file),
                "line": line,
                "text": encodable(costs.sources.lines(file).get(line, "")),
                "metrics": dict(zip(costs.metrics, costs.costs.get(file, {}).get(line, ()))),
                "samples": costs.samples_at(file, line),
                "stalls": costs.sampled.get((file, line), {}),
                **_counts(columns, costs.counted.get((file, line), {})),
            }
            for file, line in places
            if options.threshold is None or line in costs.hot(file)
        ],
    }
    return json.dumps(document) + "\n"


def _counted(profile: Profile) -> dict[str, Any]:
    """Return the metrics that were counted by instruction, of each run; nothing where none were."""
    counts = profile.tables.pc.counts
    return {"counted": [list(each) for each in counts.recordings]} if counts.recordings else {}


def _counts(columns: Sequence[CountColumn], sums: Sums) -> dict[str, Any]:
    """Return counts by metric, and rates of two; nothing where the profile has no counts."""
    if not columns:
        return {}
    rates = {each.name: each.number(sums) for each in columns if each.below}
    return {"counts": dict(sums), "rates": {k: v for k, v in rates.items() if v is not None}}


def _function(seen: SeenFunction, least: float, columns: Sequence[CountColumn]) -> dict[str, Any]:
    function = seen.function
    return {
        "name": encodable(function.name),
        "title": encodable(function.title),
        "module": function.module,
        "architecture": function.architecture,
        "note": encodable(function.note),
        "samples": seen.samples,
        "samples_elsewhere": seen.strays,
        **_counts(columns, seen.counts),
        "instructions": [
            _instruction(each, columns)
            for each in seen.instructions
            if each.weight >= least * seen.weight
        ],
    }


def _instruction(seen: SeenInstruction, columns: Sequence[CountColumn]) -> dict[str, Any]:
    code = seen.instruction
    return {
        "offset": code.offset,
        "sass": code.text,
        "depth": code.depth,
        "lines": _chain(code.place),
        "samples": seen.samples,
        "stalls": seen.stalls,
        "not_issued": seen.not_issued,
        **_counts(columns, seen.counts),
        "waits_for": [
            {"stall": each.stall, "offset": each.producer, "through": each.through}
            for each in seen.blames
        ],
    }


def _chain(place: Location | None) -> list[dict[str, Any]]:
    return [
        {"file": encodable(at.file), "line": at.line, "function": encodable(at.function)}
        for at in (place.chain() if place is not None else ())
    ]
