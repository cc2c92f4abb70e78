"""Costs of source lines: metrics of the tree's nodes, samples, counts of instructions.

In: a profile and the choices of a reader.  Out: `LineCosts`.  What a node without a place of its
own holds belongs to the line that led to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from tileprof.errors import UsageError
from tileprof.once import cached_property
from tileprof.profile import Profile
from tileprof.profile.instruction_counts import EXECUTIONS
from tileprof.profile.units import format_percent, format_value
from tileprof.viewer.code.instruction_columns import Sums
from tileprof.viewer.code.pc_functions import Stalls, line_counts, line_samples, whole_weight
from tileprof.viewer.code.source_text import SourceTexts
from tileprof.viewer.options import DEFAULT_THRESHOLD, ViewOptions
from tileprof.viewer.sample_shares import line_texts
from tileprof.viewer.selection import select, shown_metrics

Costs: TypeAlias = dict[str, dict[int, tuple[float, ...]]]
"""Own values of the nodes at each line, keyed by file and line, one number a metric."""


@dataclass(frozen=True)
class LineCosts:
    """Costs of every line of every file, and which lines are worth showing."""

    profile: Profile
    metrics: tuple[str, ...]
    costs: Costs
    floor: float
    """Percent of the whole from which a line is shown."""
    seen: Mapping[tuple[str, int], str]
    """Samplers' shares of lines inside kernels, where the reader asked for nothing else."""
    sampled: Mapping[tuple[str, int], Stalls]
    """Samples of program counters; none where the reader asked for other things."""
    counted: Mapping[tuple[str, int], Sums]
    """Counts of instructions; the same."""
    sources: SourceTexts

    @property
    def whole(self) -> float:
        """Total of the first metric."""
        return float(self.profile.whole[self.metrics[0]])

    def share(self, amount: float) -> float:
        """Return a part of the first metric, of one."""
        return amount / self.whole if self.whole else 0.0

    def amount(self, value: float) -> str:
        """Return a part of the first metric as `1.23 ms (4.5 %)`."""
        unit = self.profile.metrics[self.metrics[0]].unit
        return f"{format_value(value, unit)} ({format_percent(self.share(value))} %)"

    @cached_property
    def samples(self) -> int:
        """Number of samples of program counters, those without a line included."""
        return int(self.profile.tables.pc.counted.sum())

    @cached_property
    def files(self) -> list[str]:
        """Files with costs or samples, most expensive first."""
        files = dict.fromkeys([*self.costs, *(file for file, _ in self.weights)])
        return sorted(files, key=self._rank, reverse=True)

    @cached_property
    def weights(self) -> Mapping[tuple[str, int], int]:
        """Weight of each line: samples, or executions where the profile has no samples."""
        if self.profile.tables.pc.recordings:
            return {place: sum(stalls.values()) for place, stalls in self.sampled.items()}
        return {place: sums.get(EXECUTIONS, 0) for place, sums in self.counted.items()}

    @cached_property
    def whole_weight(self) -> int:
        """Weight of all instructions, those without a line included."""
        return whole_weight(self.profile.tables.pc)

    def weight_of(self, file: str) -> int:
        """Return the weight of a file's lines."""
        return sum(weight for place, weight in self.weights.items() if place[0] == file)

    def _rank(self, file: str) -> tuple[float, float]:
        seen = self.weight_of(file) / max(self.whole_weight, 1)
        return max(self.share(self.cost_of(file)), seen), seen

    def cost_of(self, file: str) -> float:
        """Return the first metric's sum over a file's lines."""
        return sum(cost[0] for cost in self.costs.get(file, {}).values())

    def samples_at(self, file: str, line: int) -> int:
        """Return samples of program counters at a line."""
        return sum(self.sampled.get((file, line), {}).values())

    def hot(self, file: str) -> set[int]:
        """Return the lines of a file that are worth showing."""
        lines = self.costs.get(file, {}).items()
        hot = {line for line, cost in lines if self.share(cost[0]) * 100 >= self.floor}
        least = self.floor / 100 * self.whole_weight
        return hot | {
            line
            for (name, line), weight in self.weights.items()
            if name == file and weight >= least
        }


def line_costs(profile: Profile, options: ViewOptions) -> LineCosts:
    """Return the costs of a profile's lines; raise UsageError for a metric that does not add up."""
    names = shown_metrics(profile, options)
    adding = [name for name, metric in profile.metrics.items() if metric.adds == "sum"]
    for name in names:
        if name not in adding:
            raise UsageError(
                f"`{name}` does not add up over the visits of a line",
                hint=f"With --lines use: {', '.join(adding)}.",
            )
    kept = select(profile, replace(options, mode="top-down", depth=None), 0, "user").profile
    floor = DEFAULT_THRESHOLD if options.threshold is None else options.threshold
    places, index = _places(kept)
    seen = {} if options.metrics else line_texts(kept, places, index)
    by_samples = not options.metrics or "pc_samples" in options.metrics
    sampled = line_samples(kept, options.include, options.exclude) if by_samples else {}
    by_counts = not options.metrics or bool({*options.metrics} & {*kept.tables.pc.counts.metrics})
    counted = line_counts(kept, options.include, options.exclude) if by_counts else {}
    costs = _costs(kept, names, places, index)
    return LineCosts(kept, names, costs, floor, seen, sampled, counted, SourceTexts(kept))


def _places(profile: Profile) -> tuple[list[tuple[str, int]], list[int]]:
    """Return lines, and the number of that of each node; -1 for none."""
    places: dict[tuple[str, int], int] = {}
    index: list[int] = []
    for parent, location in zip(profile.parents.tolist(), profile.locations):
        if location is not None and location.line:
            index.append(places.setdefault((location.file, location.line), len(places)))
        else:
            index.append(index[parent] if parent >= 0 else -1)
    return list(places), index


def _costs(
    profile: Profile, names: tuple[str, ...], places: list[tuple[str, int]], index: list[int]
) -> Costs:
    slots = np.array(index) + 1  # slot 0 takes what has no place
    sums = [
        np.bincount(slots, profile.own[name] + profile.absorbed[name], len(places) + 1)[1:].tolist()
        for name in names
    ]
    costs: Costs = {}
    for (file, line), values in zip(places, zip(*sums)):
        if any(values):
            costs.setdefault(file, {})[line] = values
    return costs
