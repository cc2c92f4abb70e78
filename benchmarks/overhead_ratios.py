"""From bursts to one figure with its interval.

A pair is a profiled burst and the plain one of the same round.  The figure is the mean over all
pairs: of the logarithms where they are ratios, so that it is their geometric mean.  What bursts
differ by has light tails, so the mean has a narrower interval than the median (by a fifth for what
an H200 machine gave), and unlike it sees costs that fall on few of the bursts.  Pairs of one set of
processes are not independent, so the interval is a bootstrap of two levels: sets are drawn, then
rounds in each.  Times are those of the clock; of the processor where the machine is shared and
small.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from overhead_serving import Taken

DRAWS = 4000
DIGITS = 5
"""Of the pairs that are kept."""

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
    found = []
    for ours, theirs in zip(taken.generations, plain.generations):
        beside = {answer["round"]: answer[clock] for answer in theirs}
        pairs = [(o[clock], beside[o["round"]]) for o in ours if o["round"] in beside]
        found.append([combine(*pair) for pair in pairs])
    return found


def ratio_interval(pairs: Sequence[Sequence[float]]) -> Interval:
    """The geometric mean of all pairs, which are above zero, with its interval."""
    found = interval([[math.log(value) for value in group] for group in pairs])
    value, low, high = map(math.exp, (found.value, found.low, found.high))
    return Interval(value, low, high, _kept(pairs))


def interval(pairs: Sequence[Sequence[float]]) -> Interval:
    """The mean of all pairs, with its interval."""
    held = [np.array(group) for group in pairs if len(group)]
    generator = np.random.default_rng(0)
    sums, counts = np.zeros(DRAWS), np.zeros(DRAWS)
    for chosen in generator.integers(len(held), size=(len(held), DRAWS)):
        for index, group in enumerate(held):
            (draws,) = np.nonzero(chosen == index)
            drawn = group[generator.integers(len(group), size=(len(draws), len(group)))]
            sums[draws] += drawn.sum(1)
            counts[draws] += len(group)
    low, high = np.quantile(sums / counts, (0.025, 0.975))
    return Interval(float(np.concatenate(held).mean()), float(low), float(high), _kept(pairs))


def _kept(pairs: Sequence[Sequence[float]]) -> Pairs:
    return [[float(f"{value:.{DIGITS}g}") for value in group] for group in pairs if len(group)]


def middle_seconds(taken: Taken, clock: str) -> float:
    """Median of a burst."""
    return statistics.median(a[clock] for g in taken.generations for a in g)
