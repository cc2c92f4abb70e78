"""Names in a hatchet literal: units and laws stand in a metric's name, places in a frame's.

Metric("time", "ns")                        "time (ns)"
Metric("flops16", "flop")                   "flops16"         names with a unit of their own
Metric("peak", "bytes", "max")              "peak (bytes) (max)"
Metric("clock", "MHz", "last")              "clock (MHz) (pty)"
Metric("wall (inc)", "ns", inclusive=True)  "wall (ns) (inc)"
frame `step` at train.py:3                  "train.py:3@step"
"""

from __future__ import annotations

import re
from typing import Final, cast

from tileprof.errors import Location
from tileprof.profile.metrics import STANDARD, Adds, Metric
from tileprof.profile.tree.symbol import Symbol

ROOT: Final = "ROOT"
DEVICE_ID: Final = Metric("device_id", "1", "last")
DEVICES: Final = "devices"
"""Key of the provenance that holds the literal's device table, as JSON."""

_KEY: Final = re.compile(r"(.+?)(?: \(([^()]+)\))?(?: \(([^()]+)\))?", re.DOTALL)
_PLACE: Final = re.compile(r"(?P<file>.+):(?P<line>\d+)@(?P<function>.+)", re.DOTALL)
_LAWS: Final[dict[str, Adds]] = {"min": "min", "max": "max", "pty": "last"}


def metric_key(metric: Metric) -> str:
    """Return the name of a metric in a literal."""
    name = metric.name.removesuffix(" (inc)") if metric.inclusive else metric.name
    own_law = STANDARD[name].adds if name in STANDARD else "sum"
    law = "inc" if metric.inclusive else {a: k for k, a in _LAWS.items()}.get(metric.adds, "")
    if not metric.inclusive and metric.adds == own_law:
        law = ""
    # A unit may be `min` too, so that only a second bracket is taken for that law.
    with_unit = metric.unit != _own_unit(name) or law in ("min", "max")
    return name + (f" ({metric.unit})" if with_unit else "") + (f" ({law})" if law else "")


def metric_of(key: str) -> Metric:
    """Return the metric that a name in a literal stands for; `(inc)` stays in its name."""
    name, unit, law = _split(key)
    if law == "inc":
        return Metric(f"{name} (inc)", unit or _own_unit(name), inclusive=True)
    unit = unit or _own_unit(name)
    if (known := STANDARD.get(name)) is not None and known.unit == unit and not law:
        return known
    return Metric(name, unit, _LAWS.get(law, "sum"))


def _split(key: str) -> tuple[str, str, str]:
    found = _KEY.fullmatch(key)
    if found is None:
        return key, "", ""
    name, first, second = found[1], found[2] or "", found[3] or ""
    if second in ("inc", "exc", *_LAWS):
        return name, first, second
    if second:
        return f"{name} ({first})", second, ""
    return (name, "", first) if first in ("inc", "exc", "pty") else (name, first, "")


def _own_unit(name: str) -> str:
    """Return the unit that a name without one stands for."""
    if re.fullmatch(r"flops\d*", name):
        return "flop"
    return "bytes" if name == "bytes" else "1"


def node_name(symbol: Symbol) -> str:
    """Return the name of a node in a literal."""
    if symbol.kind in ("frame", "line") and symbol.location is not None:
        return f"{symbol.location.file}:{symbol.location.line}@{symbol.name}"
    return symbol.name


def place_text(place: Location) -> str:
    """Return a location as text that `place_of` reads back, columns left out."""
    return f"{place.file}:{place.line}@{place.function or '?'}"


def place_of(text: str) -> Location | None:
    """Return the location of `file:line@function`, None where the text is something else."""
    if (found := _PLACE.fullmatch(text)) is None:
        return None
    function = cast(str, found["function"])
    return Location(found["file"], int(found["line"]), function="" if function == "?" else function)
