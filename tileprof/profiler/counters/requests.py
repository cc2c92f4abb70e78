"""Requests of `--metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tileprof.errors import UsageError
from tileprof.profile.counters import SETS, TIME, Counter, counters_of
from tileprof.profile.instruction_counts import NAMES, SET, is_of_instructions


@dataclass(frozen=True, slots=True)
class Asked:
    """Counters of launches that a session wants."""

    names: tuple[str, ...]
    """Names as the user gave them: sets, and metrics of CUPTI's."""
    counters: tuple[Counter, ...]

    @property
    def terms(self) -> tuple[str, ...]:
        """The metrics of CUPTI's that these are made of, each once; the time of a launch first."""
        terms = (term for counter in self.counters for term in counter.terms)
        return tuple(dict.fromkeys((TIME, *terms)))

    def of_term(self, term: str) -> str:
        """Return the first name that wants a metric of CUPTI's."""
        for name in self.names:
            if any(term in counter.terms for counter in counters_of(name)):
                return name
        return term


@dataclass(frozen=True, slots=True)
class AskedInstructions:
    """Counts of instructions that a session wants."""

    names: tuple[str, ...]
    """Names as the user gave them: the set, and SASS metrics of CUPTI's."""

    @staticmethod
    def metrics_of(name: str) -> tuple[str, ...]:
        """Return the metrics of CUPTI's that a name stands for."""
        return tuple(NAMES) if name == SET else (name,)


def parse_metrics(given: str | Iterable[str] | bool | None) -> Asked | AskedInstructions | None:
    """Read `memory,dram__bytes_read.sum` or a list of such names; None where nothing is wanted.

    UsageError for what is no name, and for counters of launches beside counts of instructions.
    """
    if given is None or given is False:
        return None
    names = metric_names(given, [*SETS, SET])
    of_instructions = [name for name in names if is_of_instructions(name)]
    if others := [name for name in names if name not in of_instructions] if of_instructions else []:
        raise UsageError(
            f"{of_instructions[0]} is counted by instruction, {others[0]} by launch: one process"
            " does not do both",
            hint="Run the program twice, and join the profiles.",
        )
    if of_instructions:
        return AskedInstructions(names)
    counters = {c.metric.name: c for name in names for c in counters_of(name)}
    return Asked(names, tuple(counters.values()))


def metric_names(given: object, sets: Iterable[str]) -> tuple[str, ...]:
    """Return the names in `memory,dram__bytes_read.sum` or a list of such, each once. UsageError,
    naming the sets that there are, for what names nothing."""
    hint = (
        f"Give one or more of {', '.join(sets)}, or metrics of CUPTI's like dram__bytes_read.sum."
    )
    if not isinstance(given, str) and not isinstance(given, Iterable):
        raise UsageError(f"metrics is {given!r}", hint=hint)
    parts = given.split(",") if isinstance(given, str) else list(given)
    names = tuple(dict.fromkeys(str(part).strip() for part in parts))
    if not names or not all(names):
        raise UsageError("`metrics` names no metric", hint=hint)
    return names
