"""Which metrics the device knows, of those that count what a page shows.

In: the kind of device.  Out: a `Plan`; CUPTI is asked, which needs no device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.show_counters.quantities import LINE_METRICS, QUANTITIES

CHIP = "GH100"
"""CUPTI's name of an H100 or H200, for a plan without a device."""


@dataclass(frozen=True)
class Plan:
    """Metrics that are counted."""

    chip: str
    chosen: Mapping[str, tuple[tuple[str, ...], ...]]
    """Alternatives of each quantity that CUPTI knows, in order, with `.sum`."""
    unknown: tuple[str, ...]
    """Metrics of alternatives that CUPTI does not know."""
    passes: int
    lines: tuple[str, ...]
    """Metrics of instructions; all that are wanted where no device could be asked."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics of launches, each once."""
        alternatives = (each for found in self.chosen.values() for each in found)
        return tuple(dict.fromkeys(name for each in alternatives for name in each))


def plan(chip: str | None) -> Plan:
    """Look all metrics up in CUPTI for a kind of device, by default this machine's."""
    from tileprof.profile.counters import TIME
    from tileprof.profiler.counters.host import CuptiFailure, Host
    from tileprof.profiler.counters.lookup import find_chip, find_instruction_metrics
    from tileprof.profiler.counters.planning import open_found

    path, library = open_found()
    lines = LINE_METRICS
    if chip is None:
        chip = find_chip(path)
        known = find_instruction_metrics(path)[1]
        lines = tuple(each for each in lines if each in known)

    def passes(names: Sequence[str]) -> int:
        try:
            with Host(library, chip) as host:
                return host.passes(host.plan([TIME, *names]))
        except CuptiFailure:
            return 0

    every = dict.fromkeys(f"{n}.sum" for q in QUANTITIES for each in q.metrics for n in each)
    unknown = tuple(name for name in every if not passes([name]))
    chosen: dict[str, tuple[tuple[str, ...], ...]] = {}
    together: list[str] = []
    for quantity in QUANTITIES:
        found: list[tuple[str, ...]] = []
        for each in quantity.metrics:
            names = tuple(f"{name}.sum" for name in each)
            joined = list(dict.fromkeys([*together, *names]))
            # Counters that the device knows one by one may still not be counted together.
            if not set(names) & set(unknown) and passes(joined):
                found.append(names)
                together = joined
        chosen[quantity.name] = tuple(found)
    return Plan(chip, chosen, unknown, passes(together), lines)


def plan_text(made: Plan) -> str:
    """Return the plan in words: what counts each quantity."""
    text = [f"{made.chip}: {len(made.metrics)} metrics of launches in {made.passes} passes"]
    for name, found in made.chosen.items():
        text.append(f"  {name}: {'; else '.join(map(' + '.join, found)) or 'no counter'}")
    text.append(f"  by line: {', '.join(made.lines) or 'no counts of instructions'}")
    if made.unknown:
        text.append(f"  not known: {', '.join(made.unknown)}")
    return "\n".join(text)
