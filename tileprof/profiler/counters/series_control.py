"""Counters over time, switched on and off; what they were, and what is told of it.

In: what a session asks for.  Out: a plan, made before the program runs, in the native recorder;
series of devices; and sentences: how often was sampled, why not, what was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tileprof.errors import UsageError
from tileprof.profile import CounterSeries
from tileprof.profiler.counters.lookup import find_chip
from tileprof.profiler.counters.planning import open_found, planned
from tileprof.profiler.counters.problems import or_why_not, problem
from tileprof.profiler.counters.series_requests import SeriesAsked

NOT_SAMPLED = "counters not sampled"
"""Key of the provenance for the reason."""
SAMPLES_OF_A_READ = 250
"""CUPTI makes numbers of a sample in up to 60 µs, and room for one in 18 (H200, ten metrics). There
is room for twice as many: samples for which there is none are lost."""
MOST_READ_MS, LEAST_READ_MS = 100, 5


@dataclass(frozen=True, slots=True)
class PreparedSeries:
    """Outcome of a session's request for counters over time before its program runs."""

    plan: SeriesPlan | None = None
    problem: str = ""
    """Why there is no plan."""

    def facts(self) -> dict[str, str]:
        """Return what provenance tells where nothing is sampled at all."""
        return {} if self.plan is not None else {NOT_SAMPLED: self.problem}


def prepare_series(asked: SeriesAsked | None) -> PreparedSeries | None:
    """Plan what a session asks for; UsageError for what the device cannot count at once.

    Where there is no device, or no CUPTI that can sample, the session goes on without.
    """
    if asked is None:
        return None
    return or_why_not(
        lambda: PreparedSeries(make_series_plan(asked)), lambda why: PreparedSeries(problem=why)
    )


class SeriesControl:
    """The counters over time of one process's recordings."""

    def __init__(self, recorder: ModuleType) -> None:
        self._native = recorder
        self._plan: SeriesPlan | None = None

    def want(self, prepared: PreparedSeries | None) -> None:
        """Sample these from the next beginning on; while nothing is recorded."""
        if prepared is None or prepared.plan is None or prepared.plan == self._plan:
            return
        self._plan = plan = prepared.plan
        series, interval = plan.asked.series, plan.asked.interval
        fit = SAMPLES_OF_A_READ * interval // 1_000_000
        read_ms = min(max(fit, LEAST_READ_MS), MOST_READ_MS)
        self._native.pm_configure(
            plan.chip,
            [each.term for each in series],
            [each.counted for each in series],
            plan.image,
            interval,
            image_samples=2 * max(SAMPLES_OF_A_READ, read_ms * 1_000_000 // interval),
            read_ms=read_ms,
        )

    def stop(self) -> None:
        """Sample nothing any more, and forget what was sampled."""
        if self._plan is not None:
            self._plan = None
            self._native.pm_configure("", [], [], b"")

    def series(self, begin: int) -> tuple[CounterSeries, ...]:
        """Return what was sampled from a time on, in ns; one series for each device."""
        if self._plan is None:
            return ()
        asked = self._plan.asked
        factors = np.array([[each.factor] for each in asked.series], np.float32)
        found = []
        for device, start, stop, columns, *_ in self._native.pm_rows():
            start, stop = start.astype(np.int64), stop.astype(np.int64)
            values = np.array(columns, np.float32).reshape(len(factors), len(start)) * factors
            metrics = tuple(each.metric for each in asked.series)
            whole = CounterSeries.of(
                f"cuda:{device}", asked.interval, start, stop - start, metrics, values
            )
            if len(part := whole.since(begin)):
                found.append(part)
        return tuple(found)

    def facts(self) -> dict[str, str]:
        """Return what provenance tells."""
        if self._plan is None:
            return {}
        status = self._native.pm_status()
        asked = self._plan.asked
        told = [
            f"{', '.join(asked.names)} on {self._plan.chip}, every {asked.interval / 1000:g} µs",
            f"{status['samples']:,} samples",
        ]
        if status["missed"]:
            told.append(f"{status['missed']:,} missed")
        if full := status["overflows"]:
            told.append(f"the buffer was full {'once' if full == 1 else f'{full:,} times'}")
        if gone := sum(given_up for *_, given_up in self._native.pm_rows()):
            told.append(f"{gone:,} rows found no room")
        facts = {"counters over time": "; ".join(told)}
        if status["hung"]:
            facts[NOT_SAMPLED] = "CUPTI did not return from a call"
        elif status["code"]:
            facts[NOT_SAMPLED] = problem(self._native, status["code"], status["text"])
        return facts


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
