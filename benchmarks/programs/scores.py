"""Statistics of pairs of times, and scores of reports against measured changes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from tileprof.bench import median_interval

from .catalog import named

__all__ = ["ENOUGH", "NOTHING", "gain_of", "judged", "summary"]

Json: TypeAlias = Mapping[str, Any]
ENOUGH = 0.8
"""Part of the best single change's gain (S − 1) that the first suggestion has to bring."""
NOTHING = 1.05
"""Where no change brings as much, silence is right."""
_SCORED = 0.02
"""Gains (S − 1) below are noise: the error of their prediction is not scored."""


def gain_of(base: Sequence[float], changed: Sequence[float]) -> dict[str, Any]:
    """Return the median of paired ratios, base over changed, and its 90 % bootstrap interval."""
    ratios = [b / c for b, c in zip(base, changed, strict=True)]
    gain = median_interval(ratios, 0.9)
    return {"gain": gain.value, "low": gain.low, "high": gain.high}


def judged(report: Json, changes: Json) -> dict[str, Any]:
    """Judge one report (`tileprof report --json`) against measured changes, by name.

    A suggestion that names several changes is credited with the best of them. Only changes whose
    result is right count.
    """
    true = {name: each["gain"] for name, each in changes.items() if each.get("right")}
    best = max(true, key=lambda name: true[name], default="")
    said = [each for each in report["findings"] if each["severity"] == "suggestion"]
    found: dict[str, Any] = {
        "best": best,
        "best_gain": true.get(best),
        "suggestions": len(said),
        "predicted": {name: _predicted(said, name) for name in true},
        **_accounted(report),
    }
    if not said or not best:
        nothing = bool(best) and true[best] < NOTHING
        return {**found, "first": None, "enough": nothing if best else None, "inside": None}
    first, gain = said[0], said[0]["gain"]["program"]
    names = _named(first, true)
    brought = max((true[name] for name in names), default=1.0)
    return {
        **found,
        "first": {"rule": first["rule"], "title": first["title"], "gain": gain, "names": names},
        "brought": brought,
        "least_brought": min((true[name] for name in names), default=1.0),
        "enough": brought - 1 >= ENOUGH * (true[best] - 1) if true[best] >= NOTHING
        else gain is None or gain[1] <= NOTHING,
        "inside": bool(names) and gain is not None and gain[0] <= brought <= gain[2],
    }  # fmt: skip


def _text(finding: Json) -> str:
    """Text of a finding in which the words of a code are looked for."""
    place = finding["place"]
    at = place["location"] or {}
    words = [finding["title"], finding["suggestion"]["author"], *place["path"], place["kernel"],
             at.get("function")]  # fmt: skip
    return " ".join(word for word in words if word)


def _named(finding: Json, changes: Iterable[str]) -> list[str]:
    return [name for name in changes if named(name, dict(finding), _text(finding))]


def _predicted(said: Sequence[Json], change: str) -> list[float] | None:
    """The gain that the first suggestion naming a change states for the program."""
    for each in said:
        if _named(each, [change]):
            gain: list[float] | None = each["gain"]["program"]
            return gain
    return None


def _accounted(report: Json) -> dict[str, Any]:
    """Share of device time that is floor or has a named cause, 0 to 1, and what says so.

    A report with an account says it itself; of others, the kernels count that have a suggestion
    of their own or are at their roof.
    """
    account = (report.get("account") or {}).get("device")
    if account:
        return {"accounted": 1 - account["unexplained"] / account["busy"], "by": "account"}
    kernels = report["kernels"]
    if not kernels or not sum(each["time"] or 0 for each in kernels):
        return {"accounted": None, "by": "kernels"}
    known = {each["place"]["kernel"] for each in report["findings"]
             if each["severity"] in ("suggestion", "stop")}  # fmt: skip
    return {
        "accounted": sum(each["share"] or 0 for each in kernels if each["name"] in known),
        "by": "kernels",
    }


def summary(rows: Iterable[Json], kind: str) -> dict[str, Any]:
    """Score all programs by one kind of recording, `plain` or `samples`."""
    held = [row["judged"][kind] for row in rows if kind in row.get("judged", {})]
    scored = [each for each in held if each["enough"] is not None]
    spoken = [each for each in scored if each["first"] is not None]
    shares = [each["accounted"] for each in held if each["accounted"] is not None]
    errors = [
        abs((held["predicted"][name] or [1.0, 1.0, 1.0])[1] - change["gain"]) / (change["gain"] - 1)
        for row in rows
        if (held := row.get("judged", {}).get(kind))
        for name, change in row["changes"].items()
        if name in held["predicted"] and change["gain"] - 1 >= _SCORED
    ]
    return {
        "programs": len(scored),
        "enough": _share([bool(each["enough"]) for each in scored]),
        "inside": _share([bool(each["inside"]) for each in spoken]),
        "accounted": statistics.median(shares) if shares else None,
        "error": statistics.median(errors) if errors else None,
    }


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None
