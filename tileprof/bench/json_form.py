"""Results as plain JSON objects, in the shape that scripts rely on.

    {"schema": 1, "function", "clock", "graph", "flushed_l2", "seconds", "rounds",
     "time": {"median_ns", "low_ns", "high_ns", "level", "calls_per_batch", "batches_ns": […]},
     "baseline": {"function", …as time} | null,
     "ratio": {"median", "low", "high", "level"} | null,
     "gpu": {"name", "driver", "states": [{"sm_mhz", "memory_mhz", "celsius", "watts",
                                           "held_back": […]}]} | null,
     "doubts": [{"code", "facts": {…}, "sentence"}]}

`ratio` is the time over the baseline's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .gpu_state import GpuState
from .intervals import LEVEL
from .measuring import Result, Timed

SCHEMA = 1
"""Raised when a field changes its meaning or goes; new fields do not raise it."""


def to_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON objects."""
    ratio, baseline = result.ratio, result.baseline
    return {
        "schema": SCHEMA,
        "function": result.timed.name,
        "clock": result.clock,
        "graph": result.plan.graph,
        "flushed_l2": result.plan.flushed,
        "seconds": result.seconds,
        "rounds": len(result.timed.batches),
        "time": _timed(result.timed),
        "baseline": {"function": baseline.name, **_timed(baseline)} if baseline else None,
        "ratio": ratio
        and {"median": ratio.value, "low": ratio.low, "high": ratio.high, "level": LEVEL},
        "gpu": _gpu(result.gpu),
        "doubts": [
            {"code": each.code, "facts": dict(each.facts), "sentence": str(each)}
            for each in result.doubts
        ],
    }


def _timed(timed: Timed) -> dict[str, Any]:
    return {
        "median_ns": timed.time.value,
        "low_ns": timed.time.low,
        "high_ns": timed.time.high,
        "level": LEVEL,
        "calls_per_batch": timed.calls,
        "batches_ns": list(timed.batches),
    }


def _gpu(states: Sequence[GpuState]) -> dict[str, Any] | None:
    if not states:
        return None
    return {
        "name": states[0].name,
        "driver": states[0].driver,
        "states": [
            {
                "sm_mhz": each.sm_mhz,
                "memory_mhz": each.memory_mhz,
                "celsius": each.celsius,
                "watts": each.watts,
                "held_back": list(each.held_back),
            }
            for each in states
        ],
    }
