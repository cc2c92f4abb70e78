"""Findings as SARIF 2.1.0, which editors and code hosts show on the lines of their sources.

In: findings of a report or of a check.  Out: a file.  Format: OASIS, "Static Analysis Results
Interchange Format (SARIF) Version 2.1.0", 2020.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tileprof.errors import Location, OutputError
from tileprof.files import replace_bytes

from .kernel.check_text import access_sentence, title

if TYPE_CHECKING:
    from tileprof.analyzer import Finding, Report
    from tileprof.analyzer.findings import Severity
    from tileprof.checker import Finding as Fault
    from tileprof.checker import Report as Check

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
Level = Literal["error", "warning", "note"]
_LEVELS: Mapping[Severity, Level] = {
    "suggestion": "warning",
    "warning": "warning",
    "symptom": "note",
}
"""Severities with something to change; `stop` and `ignore` are left out."""
_ROOT = "ROOT"


@dataclass(frozen=True, slots=True)
class Result:
    """One finding with its places in sources."""

    rule: str
    level: Level
    message: str
    location: Location | None
    related: tuple[tuple[Location, str], ...] = ()
    """Other places, each with what happens there."""
    identity: str = ""
    """The same in each recording where the same cause is found at the same place."""
    properties: Mapping[str, Any] = field(default_factory=dict)


def of_reports(reports: Mapping[str, Report], include: str | None) -> list[Result]:
    """Return what can be changed in some programs, keyed by file, the largest gain first."""
    from tileprof.analyzer.findings import identified
    from tileprof.viewer.findings import chosen

    return [
        _suggestion(finding, key, file)
        for file, report in chosen(reports, include).items()
        for key, finding in identified(report.findings).items()
        if finding.severity in _LEVELS
    ]


def of_check(check: Check) -> list[Result]:
    """Return the faults of a kernel."""
    return [_fault(each) for each in check.findings]


def write(path: str, results: Sequence[Result]) -> None:
    """Write a file of SARIF; `OutputError` where that is not possible."""
    try:
        replace_bytes(path, (json.dumps(document(results, Path.cwd()), indent=1) + "\n").encode())
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror}", hint="Choose another file with --sarif FILE."
        ) from error


def document(results: Sequence[Result], root: Path) -> dict[str, Any]:
    """Return the document; files below `root` are named from there, as code hosts need it."""
    from tileprof import __version__

    rules = list(dict.fromkeys(each.rule for each in results))
    driver = {
        "name": "tileprof",
        "version": __version__,
        "rules": [{"id": rule, "name": _camel(rule)} for rule in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {_ROOT: {"uri": f"{root.as_uri().rstrip('/')}/"}},
        "results": [_result(each, rules.index(each.rule), root) for each in results],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _suggestion(finding: Finding, key: str, file: str) -> Result:
    gain = finding.program_gain or finding.kernel_gain
    whose = "program" if finding.program_gain else "kernel"
    expected = f"Expected gain: {whose} {gain}." if gain else ""
    facts = {
        "profile": file,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "kernel": finding.place.kernel or None,
        "path": list(finding.place.path) or None,
        "programGain": finding.program_gain and finding.program_gain.to_json(),
        "kernelGain": finding.kernel_gain and finding.kernel_gain.to_json(),
    }
    return Result(
        finding.rule,
        _LEVELS[finding.severity],
        _sentences(finding.title, expected, finding.author),
        finding.place.location,
        identity=key,
        properties={name: value for name, value in facts.items() if value is not None},
    )


def _fault(fault: Fault) -> Result:
    said = [(each.location, access_sentence(fault.buffer, each)) for each in fault.accesses]
    places = [(place, text) for place, text in said if place is not None]
    shown = [text for _, text in said] or [fault.message]
    return Result(
        fault.code,
        "error",
        _sentences(title(fault), *shown),
        places[0][0] if places else None,
        tuple(places[1:]),
        properties={"kernel": fault.kernel, "launch": fault.launch, "buffer": fault.buffer},
    )


def _sentences(*parts: str) -> str:
    """Join parts, each with a full stop and a capital letter in front where it has none."""
    whole = (part.strip() for part in parts)
    return " ".join(
        part[:1].upper() + part[1:] + ("" if part[-1] in ".!?" else ".") for part in whole if part
    )


def _result(result: Result, index: int, root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {
        "ruleId": result.rule,
        "ruleIndex": index,
        "level": result.level,
        "message": {"text": result.message},
    }
    if result.location is not None:
        found["locations"] = [_location(result.location, root)]
    if result.related:
        found["relatedLocations"] = [
            {"id": number, **_location(place, root), "message": {"text": text}}
            for number, (place, text) in enumerate(result.related)
        ]
    if result.identity:
        found["partialFingerprints"] = {"tileprof/v1": result.identity}
    if result.properties:
        found["properties"] = dict(result.properties)
    return found


def _location(place: Location, root: Path) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": _artifact(place.file, root)}
    if place.line:
        physical["region"] = dict(_region(place))
    return {"physicalLocation": physical}


def _region(place: Location) -> Iterable[tuple[str, int]]:
    """Lines and columns count from 1; the end column is the one after the last."""
    yield "startLine", place.line
    if place.end_column:
        yield "startColumn", place.column + 1
        yield "endLine", place.end_line or place.line
        yield "endColumn", place.end_column + 1


def _artifact(file: str, root: Path) -> dict[str, str]:
    path = Path(os.path.normpath(root / file))
    if path.is_relative_to(root):
        relative = path.relative_to(root).as_posix()
        # Percent signs and the like are escaped as in any URI.
        uri = Path("/", relative).as_uri().removeprefix("file:///")
        return {"uri": uri, "uriBaseId": _ROOT}
    return {"uri": path.as_uri()}


def _camel(rule: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"\W+", rule))
