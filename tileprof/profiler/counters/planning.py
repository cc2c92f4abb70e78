"""CUPTI's plan for the counters of a session, made before the program runs.

In: what is asked for.  Out: a `Plan`, with how many times each launch will run; or an error that
names the metric that the device does not have, and those that it has under similar names.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tileprof.errors import MissingDependencyError, UsageError
from tileprof.profiler.cupti import cupti_library
from tileprof.progress import working

from .host import CuptiFailure, Host, Kind, base_metrics, open_library
from .lookup import find_chip
from .requests import Asked


@dataclass(frozen=True, slots=True)
class Plan:
    """Input of the native recorder."""

    asked: Asked
    library: Path
    chip: str
    """The kind of device, as CUPTI calls it: `GH100`."""
    passes: int
    """Number of times that each launch runs."""
    image: bytes

    def sentence(self) -> str:
        """Return a notice for before the program runs; '' if each launch runs once."""
        if self.passes <= 1:
            return ""
        what = f"the counters of {', '.join(self.asked.names)} take {self.passes} passes"
        return (
            f"{what} on {self.chip}: each kernel runs {self.passes} times, and memory is put back"
            " in between"
        )


def make_plan(
    asked: Asked, find: Callable[[Path | str], str] = find_chip, chip: str | None = None
) -> Plan:
    """Plan the reading of counters on this machine's first device, or on a `chip`.

    MissingDependencyError where there is no CUPTI or no device; UsageError for a metric that such a
    device does not have.
    """
    with working("planning the passes of hardware counters"):
        path, library = open_found()
        name = chip or find(path)
        passes, image = planned(library, name, asked, "launches")
    return Plan(asked, path, name, passes, image)


class Wanted(Protocol):
    """Metrics that somebody wants."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Metric names in CUPTI's spelling."""

    def of_term(self, term: str) -> str:
        """Return the name by which one was asked for."""


def open_found() -> tuple[Path, Any]:
    """Find and open CUPTI; MissingDependencyError where there is none that can count."""
    found = cupti_library.find_cupti()
    if found is None:
        raise MissingDependencyError(cupti_library.why_not(), hint=cupti_library.remedy())
    return found.path, open_library(found.path)


def planned(library: Any, chip: str, wanted: Wanted, kind: Kind) -> tuple[int, bytes]:
    """Return in how many passes metrics are read, and CUPTI's plan for it.

    UsageError for a metric that such a device does not have; MissingDependencyError for a device
    that this CUPTI does not know.
    """
    try:
        with Host(library, chip, kind) as host:
            image = host.plan(wanted.terms)
            return host.passes(image), image
    except CuptiFailure as failure:
        _refuse(library, chip, wanted, kind)
        raise MissingDependencyError(
            f"counters cannot be read on {chip}: {failure.message}",
            hint="Another version of CUPTI may know this device: pip install -U nvidia-cuda-cupti",
        ) from None


def _refuse(library: Any, chip: str, asked: Wanted, kind: Kind) -> None:
    """UsageError for the first metric that alone cannot be planned either; else nothing."""
    for term in asked.terms:
        try:
            with Host(library, chip, kind) as host:
                host.plan([term])
        except CuptiFailure as failure:
            if failure.function != "cuptiProfilerHostConfigAddMetrics":
                return
            raise UsageError(
                f"{chip} has no metric `{asked.of_term(term)}`" + _OVER_TIME[kind],
                hint=_similar(library, chip, term, kind),
            ) from None


_OVER_TIME: dict[Kind, str] = {"launches": "", "time": " that can be sampled over time"}


def _similar(library: Any, chip: str, term: str, kind: Kind) -> str:
    with Host(library, chip, kind) as host:
        known: Sequence[str] = base_metrics(host)
    base = term.partition(".")[0]
    near = difflib.get_close_matches(base, known, n=3, cutoff=0.5)
    if base in known:
        return f"{base} is known; what follows its point is not: use .sum, .avg, .max or .min."
    return f"It has {', '.join(near)}." if near else "`ncu --query-metrics` lists them."
