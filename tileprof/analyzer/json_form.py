"""A report as JSON objects; `docs/report.md` says what each field is.

In: a report.  Out: a document of plain lists, dictionaries, texts and numbers. Gains are
`[low, mid, high]`, times ns, offsets bytes; what is not known is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from tileprof.analyzer.account import Account
from tileprof.analyzer.findings import Evidence, Finding, Place
from tileprof.analyzer.fixes import fix_json
from tileprof.analyzer.program.phases import Phase
from tileprof.analyzer.program.training_steps import TrainingSteps
from tileprof.analyzer.reasons import TurnedDown, reasons
from tileprof.analyzer.report import Answers, Report
from tileprof.analyzer.shortfalls import Shortfall
from tileprof.remarks.stored import columns, remark_json

SCHEMA = 2


def to_json(report: Report) -> dict[str, Any]:
    """The document of one report."""
    return {
        "schema": SCHEMA,
        "tiers": list(report.tiers),
        "account": None if report.account is None else account_json(report.account),
        "findings": [_finding(each) for each in report.findings],
        "kernels": [_kernel(each) for each in report.kernels],
        "runs": [
            {"tier": tier, "run": run, "rules": list(rules)} for tier, run, rules in report.runs
        ],
        "steps": steps_json(report.program.training),
        "phases": phases_json(report.program.phases),
        "reasons": [_reason(each) for each in reasons(each.case for each in report.kernels)],
    }


def account_json(account: Account) -> dict[str, Any]:
    """Return the document of an account."""
    count, gain = account.first
    return {
        "device": {
            "time": account.time,
            "busy": account.busy,
            "floor": account.floor,
            "causes": [
                {"rule": each.rule, "title": each.title, "time": each.time, "idle": each.idle}
                for each in account.causes
            ],
            "shortfalls": _shortfalls(account.shortfalls),
            "unexplained": account.unexplained,
            "unknown": account.unknown,
            "copies": account.copies,
            "communication": account.communication,
            "waiting": account.waiting,
            "idle": [{"reason": reason, "time": time} for reason, time in account.idle],
            "kernels": [
                {
                    "name": each.name, "time": each.time, "floor": each.floor,
                    "limit": each.limit or None, "named": each.named,
                    "shortfalls": _shortfalls(each.shortfalls.items()),
                    "unexplained": each.unexplained,
                }
                for each in account.kernels
            ],
        },
        "assumed": account.assumed,
        "most": account.most if math.isfinite(account.most) else None,
        "first": {"changes": count, "gain": gain.mid, "range": [gain.low, gain.high]},
    }  # fmt: skip


def _shortfalls(parts: Iterable[tuple[Shortfall, float]]) -> list[dict[str, Any]]:
    return [{"cause": cause, "time": time} for cause, time in parts]


def steps_json(steps: TrainingSteps | None) -> dict[str, Any] | None:
    """Return the document of training steps; None where there are none."""
    if steps is None:
        return None
    parts = steps.parts
    return {
        "count": steps.count,
        "time_ns": steps.time_ns,
        "of": steps.of,
        "location": steps.location and steps.location.to_json(),
        "parts": {
            "data": parts.data,
            "forward": parts.forward,
            "untrained": parts.untrained,
            "backward": parts.backward,
            "optimizer": parts.optimizer,
        },
    }


def phases_json(phases: Iterable[Phase]) -> list[dict[str, Any]]:
    """Return the document of a program's phases."""
    return [
        {
            "name": each.name,
            "time_ns": each.time_ns,
            "location": each.location and each.location.to_json(),
        }
        for each in phases
    ]


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "title": finding.title,
        "place": _place(finding.place),
        "evidence": {
            "static": _evidence(finding.static),
            "dynamic": _evidence(finding.dynamic),
        },
        "gain": {
            "kernel": finding.kernel_gain and finding.kernel_gain.to_json(),
            "program": finding.program_gain and finding.program_gain.to_json(),
        },
        "confidence": finding.confidence,
        "suggestion": {"author": finding.author, "compiler": finding.compiler},
        "fixes": [fix_json(each) for each in finding.fixes],
    }


def _place(place: Place) -> dict[str, Any]:
    return {
        "path": list(place.path),
        "kernel": place.kernel or None,
        "op": place.op or None,
        "location": place.location and place.location.to_json(),
        "sass": None if place.sass is None else list(place.sass),
    }


def _evidence(evidence: Iterable[Evidence]) -> list[dict[str, Any]]:
    return [
        {
            "tier": each.tier,
            "text": each.text,
            "samples": each.samples,
            "remark": None if each.remark is None else remark_json(each.remark),
        }
        for each in evidence
    ]


def _kernel(answers: Answers) -> dict[str, Any]:
    case = answers.case
    return {
        "name": case.name,
        "device": case.device or None,
        "time": case.time,
        "share": case.share,
        "launches": case.launches,
        "findings": len(answers.findings),
        "together": answers.together and answers.together.to_json(),
    }


def _reason(reason: TurnedDown) -> dict[str, Any]:
    return {
        "op": reason.op,
        **columns("candidate", reason.candidate),
        **columns("reason", reason.reason),
        "time": reason.time,
        "kernels": reason.kernels,
        "kernel": reason.kernel,
        "location": reason.location and reason.location.to_json(),
    }
