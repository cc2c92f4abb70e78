"""Expected times of configurations that were not timed, from those that were.

In: predictions of the model, times of some configurations, how far apart configurations are.  Out:
for each configuration an expected time with its uncertainty, and what timing it is expected to
gain.

The logarithm of measured over predicted time is taken for a Gaussian process: the model is wrong by
one factor for all of a kernel's configurations, by further ones that are alike for configurations
near each other, and by one of each configuration's own (Rasmussen and Williams, "Gaussian
Processes for Machine Learning", 2006, chapter 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .configurations import Configuration
from .numbers import LENGTH_SCALE, MODEL_SPREAD, OWN_SPREAD

_COMMON = 0.35
"""Standard deviation of the factor that all configurations of a kernel share, as a logarithm."""
_NOISE = 0.003
"""Standard deviation of a measured time, as a logarithm."""

Array = npt.NDArray[np.float64]
Apart = Callable[[Configuration, Configuration], float]


@dataclass(frozen=True, slots=True)
class Guess:
    """Expected time of a configuration."""

    ns: float
    spread: float
    """Standard deviation of the logarithm of the time."""

    def gain(self, best_ns: float) -> float:
        """Return the expected improvement over a time, as a share of it."""
        if self.spread <= 0 or not math.isfinite(self.ns):
            return max(0.0, 1 - self.ns / best_ns) if math.isfinite(self.ns) else 0.0
        shift = (math.log(best_ns) - math.log(self.ns)) / self.spread
        density = math.exp(-shift * shift / 2) / math.sqrt(2 * math.pi)
        below = 0.5 * (1 + math.erf(shift / math.sqrt(2)))
        return self.spread * (shift * below + density)


def guesses(
    predicted: Mapping[Configuration, float], timed: Mapping[Configuration, float], apart: Apart
) -> dict[Configuration, Guess]:
    """Return a guess for each configuration with a prediction; times are in ns."""
    known = [c for c in timed if c in predicted and math.isfinite(predicted[c])]
    wanted = [c for c in predicted if math.isfinite(predicted[c])]
    if not known:
        spread = math.hypot(_COMMON, MODEL_SPREAD, OWN_SPREAD)
        return {c: Guess(predicted[c], spread) for c in wanted}
    errors = np.array([math.log(timed[c] / predicted[c]) for c in known])
    among = _covariance(known, known, apart) + _NOISE**2 * np.eye(len(known))
    across = _covariance(wanted, known, apart)
    factor: Any = np.linalg.solve(among, across.T)
    means: Array = factor.T @ errors
    whole = _COMMON**2 + MODEL_SPREAD**2 + OWN_SPREAD**2
    spreads: Array = np.sqrt(np.maximum(whole - np.sum(across * factor.T, axis=1), _NOISE**2))
    return {
        c: Guess(predicted[c] * math.exp(float(mean)), float(spread))
        for c, mean, spread in zip(wanted, means, spreads)
    }


def _covariance(
    rows: Sequence[Configuration], columns: Sequence[Configuration], apart: Apart
) -> Array:
    distance = np.array([[apart(r, c) for c in columns] for r in rows], np.float64)
    alike: Array = np.exp(-0.5 * (distance / LENGTH_SCALE) ** 2)
    own = OWN_SPREAD**2 * (distance == 0)
    whole: Array = _COMMON**2 + MODEL_SPREAD**2 * alike + own
    return whole


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Return Spearman's rank correlation of two sequences of equal length; nan for fewer than 3
    pairs."""
    if len(one) < 3:
        return math.nan
    left, right = _ranks(one), _ranks(other)
    left, right = left - left.mean(), right - right.mean()
    norm = float(np.sqrt((left @ left) * (right @ right)))
    return float(left @ right) / norm if norm else math.nan


def _ranks(values: Sequence[float]) -> Array:
    """Return ranks from 0; equal values share the mean of theirs."""
    held = np.asarray(values, np.float64)
    order = np.argsort(held, kind="stable")
    ranks = np.empty(len(held))
    ranks[order] = np.arange(len(held))
    for value in np.unique(held):
        same = held == value
        ranks[same] = ranks[same].mean()
    return ranks
