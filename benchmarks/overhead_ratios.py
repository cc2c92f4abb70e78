"""From bursts to one figure with its interval.

A pair is a profiled burst and the plain one of the same round.  Pairs of one set of processes are
not independent, so the interval is a bootstrap of two levels: sets are drawn, then rounds in each.
Times are those of the clock; of the processor where the machine is shared and small.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from overhead_serving import Taken

DRAWS = 4000

Pairs = list[list[float]]
"""A number for each pair, by set of processes."""


@dataclass(frozen=True)
class Interval:
    """A figure, and the interval that holds it in 95 % of the draws."""

    value: float
    low: float
    high: float
    pairs: Pairs
    """By generation."""


def ratios(taken: Taken, plain: Taken, clock: str) -> Pairs:
    """Time of each burst over the plain one's; `clock` is `seconds` or `processor`."""
    return _paired(taken, plain, clock, lambda ours, theirs: ours / theirs)


def costs(taken: Taken, plain: Taken, clock: str, units: int) -> Pairs:
    """µs a unit above the plain one."""
    return _paired(taken, plain, clock, lambda ours, theirs: (ours - theirs) / units * 1e6)


def _paired(
    taken: Taken, plain: Taken, clock: str, combine: Callable[[float, float], float]
) -> Pairs:
    return [
        [combine(o[clock], p[clock]) for o, p in zip(ours, theirs)]
        for ours, theirs in zip(taken.generations, plain.generations)
    ]


def interval(pairs: Sequence[Sequence[float]], by_mean: bool = False) -> Interval:
    """The median of all pairs, or their mean, with its interval.

    The mean is for costs that fall on few of the bursts, which a median would not see.
    """
    middle = np.mean if by_mean else np.median
    held = [np.array(group) for group in pairs if len(group)]
    generator = np.random.default_rng(0)
    draws = np.empty(DRAWS)
    for index in range(DRAWS):
        groups = (held[i] for i in generator.integers(len(held), size=len(held)))
        drawn = [g[generator.integers(len(g), size=len(g))] for g in groups]
        draws[index] = middle(np.concatenate(drawn))
    low, high = np.quantile(draws, (0.025, 0.975))
    value = float(middle(np.concatenate(held)))
    return Interval(value, float(low), float(high), [list(map(float, g)) for g in held])


def middle_seconds(taken: Taken, clock: str) -> float:
    """Median of a burst."""
    return statistics.median(a[clock] for g in taken.generations for a in g)
