"""Reports as plain JSON objects, in the shape that scripts rely on.

    {"schema": 1, "old", "new", "suite", "target", "device", "timed", "untimed", "floor",
     "facts": [{…}, {…}], "missing", "seconds",
     "kernels": [{"kernel", "engine", "verdict", "changed", "same_code", "compared",
                  "difference": {"level", "step", "text", "old", "new", "acts",
                                 "without_effect": […]} | null,
                  "time": {"old_ns", "new_ns", "ratio", "low", "high", "level",
                           "pairs": [[[old, new], …], …], "clocks_mhz": [old, new] | null} | null,
                  "costs": [{"name", "old", "new"}], "numbers": [{name: n}, {name: n}],
                  "launch": {name: [old, new]}, "tools": {name: [old, new]},
                  "culprits": [{"kind", "name", "text", "restores"}], "why"}],
     "commits": [{"commit", "subject", "kernels": {name: difference | null}, "between", "files",
                  "verdicts": {name: verdict}}],
     "tried", "no_walk", "skipped": {name: why}}

`ratio` is the time on the new side over that on the old one, `floor` the change that counts at
least, as a share.
"""

from __future__ import annotations

from typing import Any

from tileprof.bench.intervals import LEVEL

from .comparing import Difference
from .reports import CHANGED, Change, CommitChange, Report
from .timing import Times

SCHEMA = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""


def to_json(report: Report) -> dict[str, Any]:
    """Return a report as JSON objects."""
    return {
        "schema": SCHEMA,
        "old": report.old,
        "new": report.new,
        "suite": report.suite,
        "target": report.target,
        "device": report.device,
        "timed": bool(report.device),
        "untimed": report.untimed,
        "floor": report.floor,
        "facts": [dict(each) for each in report.facts],
        "missing": report.missing,
        "seconds": report.seconds,
        "kernels": [_change(each) for each in report.changes],
        "commits": [_commit(each) for each in report.commits],
        "tried": report.tried,
        "no_walk": report.no_walk,
        "skipped": dict(report.skipped),
    }


def _change(change: Change) -> dict[str, Any]:
    return {
        "kernel": change.kernel,
        "engine": change.engine,
        "verdict": change.verdict,
        "changed": change.verdict in CHANGED,
        "same_code": change.same_code,
        "compared": change.compared,
        "difference": _difference(change.difference),
        "time": _times(change.times),
        "costs": [{"name": f.name, "old": f.old, "new": f.new} for f in change.costs],
        "numbers": [dict(each) for each in change.numbers],
        "launch": {name: list(pair) for name, pair in change.launch.items()},
        "tools": {name: list(pair) for name, pair in change.tools.items()},
        "culprits": [
            {"kind": c.kind, "name": c.name, "text": c.text, "restores": c.restores}
            for c in change.culprits
        ],
        "why": change.why,
    }


def _difference(found: Difference | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {
        "level": found.level,
        "step": found.step,
        "text": found.text,
        "old": found.old,
        "new": found.new,
        "acts": found.acts,
        "without_effect": list(found.without_effect),
    }


def _times(times: Times | None) -> dict[str, Any] | None:
    if times is None:
        return None
    ratio = times.ratio
    return {
        "old_ns": times.old_ns,
        "new_ns": times.new_ns,
        "ratio": ratio and ratio.value,
        "low": ratio and ratio.low,
        "high": ratio and ratio.high,
        "level": LEVEL,
        "pairs": [[list(each) for each in pair.rounds] for pair in times.pairs],
        "clocks_mhz": times.clocks and list(times.clocks),
    }


def _commit(change: CommitChange) -> dict[str, Any]:
    return {
        "commit": change.commit,
        "subject": change.subject,
        "kernels": {name: _difference(each) for name, each in change.kernels.items()},
        "between": change.between,
        "files": list(change.files),
        "verdicts": dict(change.verdicts),
    }
