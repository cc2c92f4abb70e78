"""Samples of program counters as data for scripts: functions with their code, and source lines.

In: a profile and the choices of a reader.  Out: one line of JSON. Nothing is left out unless a
threshold was asked for.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tileprof.errors import Location
from tileprof.profile import Profile
from tileprof.viewer.data import view_document
from tileprof.viewer.line_costs import line_costs
from tileprof.viewer.options import ViewOptions
from tileprof.viewer.pc_functions import SeenFunction, SeenInstruction, seen_functions
from tileprof.viewer.text import encodable

__all__ = ["lines_json", "sass_json"]

_SCHEMA = 1


def sass_json(profile: Profile, options: ViewOptions) -> str:
    """The functions with samples, those with the most first; `include` chooses some by name."""
    held = profile.tables.pc
    least = (options.threshold or 0) / 100
    document = {
        "schema": _SCHEMA,
        "samples": int(held.counted.sum()),
        "recordings": [asdict(each) for each in held.recordings],
        "functions": [
            _function(each, least)
            for each in seen_functions(profile, options.include, options.exclude)
        ],
    }
    return json.dumps(document) + "\n"


def lines_json(profile: Profile, options: ViewOptions) -> str:
    """The JSON of the tree, and `lines`: own values of the metrics, samples by stall reason.

    Lines are there where the metrics add up; `options` hold for both.
    """
    document = view_document(profile, options)
    costs = line_costs(profile, options)
    places = sorted({*costs.sampled, *((f, n) for f, lines in costs.costs.items() for n in lines)})
    document |= {
        "samples": costs.samples,
        "recordings": [asdict(each) for each in profile.tables.pc.recordings],
        "lines": [
            {
                "file": encodable(file),
                "line": line,
                "text": encodable(costs.sources.lines(file).get(line, "")),
                "metrics": dict(zip(costs.metrics, costs.costs.get(file, {}).get(line, ()))),
                "samples": costs.samples_at(file, line),
                "stalls": costs.sampled.get((file, line), {}),
            }
            for file, line in places
            if options.threshold is None or line in costs.hot(file)
        ],
    }
    return json.dumps(document) + "\n"


def _function(seen: SeenFunction, least: float) -> dict[str, Any]:
    function = seen.function
    return {
        "name": encodable(function.name),
        "title": encodable(function.title),
        "module": function.module,
        "architecture": function.architecture,
        "note": encodable(function.note),
        "samples": seen.samples,
        "samples_elsewhere": seen.strays,
        "instructions": [
            _instruction(each) for each in seen.instructions if each.samples >= least * seen.samples
        ],
    }


def _instruction(seen: SeenInstruction) -> dict[str, Any]:
    code = seen.instruction
    return {
        "offset": code.offset,
        "sass": code.text,
        "depth": code.depth,
        "lines": _chain(code.place),
        "samples": seen.samples,
        "stalls": seen.stalls,
        "not_issued": seen.not_issued,
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
