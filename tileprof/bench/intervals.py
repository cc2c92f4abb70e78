"""Medians with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LEVEL = 0.95
"""Share of resampled sets whose median an interval holds."""
_DRAWS = 2000


@dataclass(frozen=True, slots=True)
class Interval:
    """A median and the interval that holds `LEVEL` of the medians of resampled sets."""

    value: float
    low: float
    high: float

    @property
    def uncertainty(self) -> float:
        """Larger distance from the median to an end of the interval, as a share of the median."""
        apart = max(self.high - self.value, self.value - self.low)
        return apart / abs(self.value) if self.value else 0.0

    def overlaps(self, other: Interval) -> bool:
        """Return whether two intervals have a value in common."""
        return self.low <= other.high and other.low <= self.high


def median_interval(values: Sequence[float], level: float = LEVEL, draws: int = _DRAWS) -> Interval:
    """Return the median of values and its percentile bootstrap interval (Efron, 1979).

    The seed is fixed, so equal values give equal intervals. One value has an interval of width 0:
    it says nothing about noise.
    """
    held = np.asarray(values, np.float64)
    drawn = np.random.default_rng(0).choice(held, (draws, len(held)))
    rest = (1 - level) / 2
    low, high = np.quantile(np.median(drawn, axis=1), (rest, 1 - rest))
    return Interval(float(np.median(held)), float(low), float(high))
