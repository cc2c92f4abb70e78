"""Outcomes as plain JSON objects, in the shape that scripts rely on.

    {"schema": 1, "kernel", "device", "machine", "sure", "rank_correlation": number | null,
     "space": {"size", "arguments": [{"name", "role", "default", "values": […]}],
               "controls": {name: […]}},
     "seconds": {"lowering", "compiling", "timing", "total"},
     "counts": {verdict: number},
     "configurations": [{"configuration": {…}, "verdict", "reason",
                         "model": {"ns", "bound", "limits": {name: ns}, "blocks_per_sm", "waves",
                                   "tail"} | null,
                         "expected_ns", "compiled", "registers", "spilled_bytes",
                         "measured": {"ns", "rounds", "position", "against": {…} | null,
                                      "ratio": {"median", "low", "high", "level"} | null} | null}],
     "notes": […]}

Configurations stand with the winner first, then by measured time, then by expected time. `ratio` is
the time over that of `against`, in pairs.
"""

from __future__ import annotations

import math
from typing import Any

from tileprof.bench.intervals import LEVEL

from .model import Estimate
from .outcomes import Looked, Measured, Outcome

SCHEMA = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""


def to_json(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON objects."""
    space, seconds = outcome.space, outcome.seconds
    return {
        "schema": SCHEMA,
        "kernel": outcome.kernel,
        "device": outcome.device,
        "machine": outcome.machine,
        "sure": outcome.sure,
        "rank_correlation": _finite(outcome.rank_correlation),
        "space": {
            "size": space.size,
            "arguments": [
                {"name": t.name, "role": t.role, "default": t.default, "values": list(t.values)}
                for t in space.tunables
            ],
            "controls": {name: list(values) for name, values in space.controls},
        },
        "seconds": {
            "lowering": seconds.lowering,
            "compiling": seconds.compiling,
            "timing": seconds.timing,
            "total": seconds.total,
        },
        "counts": dict(outcome.counts()),
        "configurations": [_looked(each) for each in outcome.looked],
        "notes": list(outcome.notes),
    }


def _looked(each: Looked) -> dict[str, Any]:
    return {
        "configuration": each.configuration.as_json(),
        "verdict": each.verdict,
        "reason": reason_of(each),
        "model": None if each.estimate is None else _model(each.estimate),
        "expected_ns": None if each.expected_ns is None else _finite(each.expected_ns),
        "compiled": each.compiled,
        "registers": each.registers,
        "spilled_bytes": each.spilled,
        "measured": None if each.measured is None else _measured(each.measured),
    }


def _model(estimate: Estimate) -> dict[str, Any]:
    return {
        "ns": _finite(estimate.ns),
        "bound": estimate.bound,
        "limits": dict(estimate.limits),
        "blocks_per_sm": estimate.occupancy,
        "waves": estimate.waves,
        "tail": estimate.tail,
    }


def _measured(measured: Measured) -> dict[str, Any]:
    ratio = measured.ratio
    return {
        "ns": measured.ns,
        "rounds": measured.rounds,
        "position": measured.position,
        "against": measured.against and measured.against.as_json(),
        "ratio": ratio
        and {"median": ratio.value, "low": ratio.low, "high": ratio.high, "level": LEVEL},
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def reason_of(each: Looked) -> str:
    """Return why a configuration was not timed, or not taken though it ran, as a sentence; '' where
    its time says it."""
    match each.verdict:
        case "refused":
            return each.refused.message if each.refused else ""
        case "ruled-out" if each.because is not None:
            return (
                f"needs at least the {each.because.resource} of `{each.because.configuration}`, "
                "which does not have enough"
            )
        case "spills":
            return f"a thread spills {each.spilled:,} bytes for want of registers"
        case "wrong" | "failed":
            return each.reason
        case _:
            return ""
