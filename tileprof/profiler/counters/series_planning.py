"""CUPTI's plan for counters over time, made before the program runs.

In: what is asked for.  Out: a `SeriesPlan`; or an error that names the metric that the device does
not have, or which ones to leave out: a device counts over time what it can count at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tileprof.errors import UsageError

from .lookup import find_chip
from .planning import open_found, planned
from .series_requests import SeriesAsked

__all__ = ["SeriesPlan", "make_series_plan"]


@dataclass(frozen=True, slots=True)
class SeriesPlan:
    """Input of the native recorder."""

    asked: SeriesAsked
    chip: str
    """The kind of device, as CUPTI calls it: `GH100`."""
    image: bytes


def make_series_plan(
    asked: SeriesAsked, find: Callable[[Path | str], str] = find_chip, chip: str | None = None
) -> SeriesPlan:
    """Plan counters over time on this machine's first device, or on a `chip`.

    MissingDependencyError where there is no CUPTI or no device; UsageError for a metric that such a
    device does not have, and for more than it counts at once.
    """
    path, library = open_found()
    name = chip or find(path)
    passes, image = planned(library, name, asked, "time")
    if passes > 1:
        raise UsageError(
            f"{name} cannot count {', '.join(asked.names)} at once: that takes {passes} passes, and"
            " counters over time have one",
            hint=_way_out(library, name, asked),
        )
    return SeriesPlan(asked, name, image)


def _way_out(library: Any, chip: str, asked: SeriesAsked) -> str:
    """Return what to leave out: one name if that is enough, else all for which the first ones leave
    no room."""

    def fits(names: Iterable[str]) -> bool:
        some = replace(asked, names=tuple(names))
        return planned(library, chip, some, "time")[0] == 1

    alone = [name for name in asked.names if not fits([name])]
    if alone:
        return f"Leave out {', '.join(alone)}: this takes several passes by itself."
    enough = [name for name in asked.names if fits(n for n in asked.names if n != name)]
    if enough:
        return f"Leave out {' or '.join(enough)}."
    kept: list[str] = []
    for name in asked.names:
        if fits([*kept, name]):
            kept.append(name)
    return f"Leave out {', '.join(name for name in asked.names if name not in kept)}."
