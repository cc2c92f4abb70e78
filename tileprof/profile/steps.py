"""Number of a program's steps that a profile holds, and estimates for all of them.

In and out: the provenance of a profile, where the recorder leaves it as text that people can read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

SETUP = "set-up"
"""The phase of what was recorded before the first step, in full; a step's nodes have none."""

_STEPS = "steps"
_NOT_RECORDED = "step not recorded"
_TEXT = re.compile(r"(\d+) ns(?: ± (\d+) ns)?")


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Steps of a program, a fraction of which was recorded; times in ns."""

    recorded: int
    steps: int
    """Whole ones, after the first."""
    means: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Mean of one step and half of its 95 % interval, NaN where unknown; keyed by metric."""
    skipped: float = math.nan
    """Mean `cpu_time` of those that were not recorded: what recording costs, they do not have."""

    def whole(self, metric: str) -> tuple[float, float]:
        """Return the estimate of all steps together, and half of its 95 % interval."""
        mean, error = self.means[metric]
        return mean * self.steps, error * self.steps

    def provenance(self) -> dict[str, str]:
        """Return it as texts for the provenance of a profile."""
        texts = {_STEPS: f"recorded {self.recorded} of {self.steps}"}
        for metric, (mean, error) in self.means.items():
            spread = "" if math.isnan(error) else f" ± {error:.0f} ns"
            texts[f"step {metric}"] = f"{mean:.0f} ns{spread}"
        if not math.isnan(self.skipped):
            texts[_NOT_RECORDED] = f"{self.skipped:.0f} ns"
        return texts


def step_times(provenance: Mapping[str, str]) -> StepTimes | None:
    """Return what a profile's provenance says of steps; None where it says nothing.

    Nothing can be said, either, of profiles that were put together and differ in it.
    """
    counts = re.fullmatch(r"recorded (\d+) of (\d+)", provenance.get(_STEPS, ""))
    if counts is None:
        return None
    means = {
        metric: _read(provenance[f"step {metric}"])
        for metric in ("cpu_time", "time")
        if f"step {metric}" in provenance
    }
    recorded, steps = (int(number) for number in counts.groups())
    return StepTimes(recorded, steps, means, _read(provenance.get(_NOT_RECORDED, ""))[0])


def _read(text: str) -> tuple[float, float]:
    found = _TEXT.fullmatch(text)
    if found is None:
        return math.nan, math.nan
    mean, error = found.groups()
    return float(mean), float(error) if error is not None else math.nan
