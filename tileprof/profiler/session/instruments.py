"""Values of `instrument`, as text: a mode, `sample=4` or `sample=500ns`; and for all sessions
together what is launched, for one variant of a kernel runs at a time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tileprof.errors import UsageError
from tileprof.runtime.hooks import Instrument

MODES: tuple[Instrument, ...] = ("off", "scopes", "sample", "stages", "ops")
"""Modes from the least to the most detailed; records give more than samples."""
_SHORTEST_NS = 100
_LONGEST_NS = 100_000_000
_UNITS = {"": 1_000.0, "ns": 1.0, "us": 1e3, "µs": 1e3, "ms": 1e6}
_PERIOD = re.compile(r"(\d+(?:\.\d+)?) ?(ns|us|µs|ms|)")
_HINT = "Use one of off, scopes, stages, ops, sample, sample=PERIOD."
_PERIOD_HINT = (
    "Give microseconds, or a number with its unit, from 100 ns to 100 ms: sample=4, sample=500ns."
)


@dataclass(frozen=True, slots=True)
class Inside:
    """Measurement inside kernels."""

    mode: Instrument
    period_ns: int = 0
    """Mean time between two looks of a sampler; 0: it is chosen."""


def parse_instrument(text: object) -> Inside:
    """Return the mode and the period that a text asks for; UsageError for any other."""
    name, has_period, period = text.partition("=") if isinstance(text, str) else ("", "", "")
    for mode in MODES:
        if mode == name and not has_period:
            return Inside(mode)
    if name == "sample":
        return Inside("sample", _period(period))
    raise UsageError(f"instrument {text!r} is unknown", hint=_HINT)


def _period(text: str) -> int:
    """Return a period in ns."""
    found = _PERIOD.fullmatch(text.strip())
    period = round(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not _SHORTEST_NS <= period <= _LONGEST_NS:
        raise UsageError(f"instrument 'sample={text}' has no such period", hint=_PERIOD_HINT)
    return period


def widest(wanted: Iterable[Inside]) -> Inside:
    """Return what serves all of them best: the mode that tells most, the shortest of the periods
    given."""
    held = [Inside("off"), *wanted]
    mode = max(held, key=lambda each: MODES.index(each.mode)).mode
    return Inside(mode, min((each.period_ns for each in held if each.period_ns), default=0))
