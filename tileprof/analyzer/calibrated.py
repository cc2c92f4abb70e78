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
from tileprof.analyzer.numbers.reports import CALIBRATED_NARROWEST

__all__ = ["FACTORS", "sharpest", "stretched"]

FACTORS: Mapping[Tier, tuple[float, float]] = {
    "samples": (0.89, 1.38),
}
"""By sharpest kind of evidence, what the lower and the upper part of an interval are stretched by,
of logarithms. They are those of what frozen analyzers predicted of `test-1` and `test-2` before
these had run: 213 gains of 82 families, of which 74 % were inside without factors and 81 % are with
those of all other families. Of the same cases as later rules predict them, which were made with
them, about 90 % are; factors of these would be (0.84, 0.74), and hold for 61 % of the frozen
predictions."""


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
