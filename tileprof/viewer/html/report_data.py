"""Report as JSON values: its header, findings, kernels, roofs, and suggested runs.

In: a report.  Out: lists and dictionaries; columns for kernels, of which there may be thousands.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.findings import TIERS, Finding, Gain, Place
from tileprof.analyzer.report import Report
from tileprof.profile.units import format_percent
from tileprof.viewer.findings.evidence import MEANINGS
from tileprof.viewer.html.code_data import CodeData
from tileprof.viewer.html.tree_data import number
from tileprof.viewer.text import encodable

_Ids = npt.NDArray[np.int64]
_HEAD = ("start", "duration", "tileprof", "torch", "triton", "git", "pc sampling", "options")
"""Keys of the provenance that the header shows, as far as they are there."""
_FRACTION = re.compile(r"\.\d+")
_FACTS = (
    "registers", "occupancy", "static_shared_bytes", "dynamic_shared_bytes", "local_bytes", "grid",
    "block", "waves", "limited_by",
)  # fmt: skip


def header_of(report: Report) -> dict[str, Any]:
    """Return the program, its devices, its times in ns, and the kinds of evidence there are."""
    program = report.program
    provenance = program.profile.tables.provenance
    names = [each.strip() for each in provenance.get("device", "").split(",") if each.strip()]
    return {
        "command": encodable(provenance.get("command", "")),
        "devices": [encodable(provenance.get(name, name)) for name in names],
        "device_time": number(program.device_time),
        "kernel_time": number(program.kernel_time),
        "host_time": number(program.host.total),
        "launches": sum(case.launches for case in program.kernels),
        "nodes": len(program.profile),
        "told": [
            *([["phases", _phases(program)]] if program.phases else []),
            *([key, _told(key, provenance[key])] for key in _HEAD if provenance.get(key)),
        ],
        "tiers": [
            [tier, tier in report.tiers, MEANINGS[tier]]
            for tier in TIERS
            # Where devices were timed, the host's time is in the account of theirs.
            if tier != "host" or tier in report.tiers
        ],
    }


def _phases(program: Program) -> str:
    """Return the phases of the host's time with their shares."""
    whole = sum(each.time_ns for each in program.phases)
    return ", ".join(
        f"{each.name} {format_percent(each.time_ns / whole)} %" for each in program.phases
    )


def _told(key: str, value: str) -> str:
    """Return a value of the provenance; a date to the second."""
    shown = _FRACTION.sub("", value).replace("T", " ") if key == "start" else value
    return encodable(shown)


def runs_of(report: Report) -> list[list[Any]]:
    """Return missing evidence: its kind, the run that adds it, the rules that it confirms."""
    return [[tier, run, list(rules)] for tier, run, rules in report.runs]


def findings_of(report: Report, code: CodeData, moved: _Ids) -> list[dict[str, Any]]:
    """Return the findings in order, each with where its code and its node are on the page."""
    return [_finding(each, report.program, code, moved) for each in report.findings]


def _finding(each: Finding, program: Program, code: CodeData, moved: _Ids) -> dict[str, Any]:
    place = each.place
    node = program.node_at(place.path, place.location)
    return {
        "rule": each.rule,
        "severity": each.severity,
        "title": encodable(each.title),
        "kernel": encodable(place.kernel),
        "path": [encodable(name) for name in place.path],
        "op": encodable(place.op),
        "at": _at(place, code),
        "sass": list(place.sass) if place.sass else None,
        "unit": code.unit_of(place.kernel),
        "node": int(moved[node]) if node >= 0 else -1,
        "evidence": [[fact.tier, encodable(fact.text), fact.samples] for fact in each.evidence],
        "author": encodable(each.author),
        "compiler": encodable(each.compiler),
        "confidence": each.confidence,
        "gain": {"kernel": _gain(each.kernel_gain), "program": _gain(each.program_gain)},
    }


def _at(place: Place, code: CodeData) -> list[Any] | None:
    """Return file, line, and the file's index in the texts of the page, -1 for none."""
    at = place.location
    return [encodable(at.file), at.line, code.file_of(at.file)] if at and at.line else None


def _gain(gain: Gain | None) -> list[float | int | None] | None:
    return [number(gain.low), number(gain.mid), number(gain.high)] if gain else None


def kernels_of(report: Report, code: CodeData, moved: _Ids) -> dict[str, list[Any]]:
    """Return all kernels in columns, the longest first."""
    together = {each.case: each.together for each in report.kernels}
    cases = report.program.kernels
    columns: dict[str, list[Any]] = {
        "name": [encodable(case.name) for case in cases],
        "time": [number(case.time) for case in cases],
        "launches": [case.launches for case in cases],
        "flops": [number(case.total("flops")) for case in cases],
        "bytes": [number(case.total("bytes")) for case in cases],
        "node": [int(moved[case.nodes[0]]) if case.nodes else -1 for case in cases],
        "unit": [code.unit_of(case.name) for case in cases],
        "together": [_gain(together.get(case)) for case in cases],
        "device": [encodable(case.device) for case in cases],
    }
    columns |= {name: [_fact(case, name) for case in cases] for name in _FACTS}
    return {name: values for name, values in columns.items() if any(_is_known(v) for v in values)}


def _fact(case: KernelCase, name: str) -> Any:
    value = case.attributes.get(name)
    return encodable(value) if isinstance(value, str) else value if value is None else number(value)


def _is_known(value: Any) -> bool:
    return value is not None and value != ""


def roofs_of(report: Report) -> list[list[Any]]:
    """Return the measured maxima of devices: device, name, value and unit."""
    held = report.program.profile.tables.device_peaks
    return [[encodable(r.device), encodable(r.name), number(r.value), r.unit] for r in held]
