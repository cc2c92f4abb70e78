"""Intervals of gains that hold as often as they say: rules' own, stretched by what they missed.

In: a kernel's gain as a rule predicts it, and its evidence.  Out: the gain with its ends as far
from its middle as split-conformal prediction says: of families of kernels that no rule was made on,
the true gain is inside with a probability of `CALIBRATED_NOMINAL`. The factors are those of
`benchmarks.plant.generated.calibrating`, which writes them here; a kind of evidence of which too
few families are known has none. An end nearer to the middle than `CALIBRATED_NARROWEST` counts as
that far: two measurements of one kernel are.

Calibrated are generated defects alone. Defects that were planted by hand are not of their kind:
rules were made with them, and intervals that held for 0.80 of those held for 0.70 of generated ones
(`benchmarks/results/plant-*.json`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tileprof.analyzer.findings import TIERS, Evidence, Gain, Tier
from tileprof.analyzer.numbers import CALIBRATED_NARROWEST

__all__ = ["FACTORS", "sharpest", "stretched"]

FACTORS: Mapping[Tier, tuple[float, float]] = {
    "samples": (1.18, 1.48),
}
"""By sharpest kind of evidence, what the lower and the upper part of an interval are stretched by,
of logarithms. They are those of `test-1`, as the analyzer that was frozen before it predicted: 89
gains of 31 families, of which 78 % were inside without them. Of cases that rules were made with
since, 84 % are, which says nothing of others."""


def sharpest(evidence: Iterable[Evidence]) -> Tier:
    """Return the kind of evidence that says most of what a change would bring."""
    kinds = {each.tier for each in evidence}
    return next((kind for kind in reversed(TIERS) if kind in kinds), "static")


def stretched(gain: Gain, evidence: Iterable[Evidence]) -> Gain:
    """Return the gain with calibrated ends."""
    factors = FACTORS.get(sharpest(evidence))
    if factors is None:
        return gain
    below, above = (
        factor * max(math.log(end), CALIBRATED_NARROWEST) if factor != 1 else math.log(end)
        for factor, end in zip(factors, (gain.mid / gain.low, gain.high / gain.mid))
    )
    low = max(1.0, gain.mid * math.exp(-below))
    return Gain(min(low, gain.mid), gain.mid, max(gain.mid * math.exp(above), gain.mid))
