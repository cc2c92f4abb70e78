"""Intervals of gains are stretched so that those of a new family hold as often as they say."""

from __future__ import annotations

import importlib
import math
import random
import sys
from typing import Any

import pytest

# `benchmarks/plant.py` is the runner; the package of the same name goes first.
sys.path[:0] = ["benchmarks"]
calibrating: Any = importlib.import_module("plant.generated.calibrating")
del sys.path[0]
Case, Factors = calibrating.Case, calibrating.Factors


def drawn(chance: random.Random, families: int, spread: float = 0.4) -> list[Any]:
    """Cases whose intervals are too narrow: true gains lie around by family and by case."""
    found = []
    for family in range(families):
        shift = chance.gauss(0, spread)
        for _ in range(chance.randint(1, 12)):
            true = math.exp(1.5 + shift + chance.gauss(0, spread / 2))
            ends = (math.exp(1.5 + each) for each in (-0.2, 0, 0.2))
            found.append(Case(f"family {family}", "samples", *ends, true))
    return found


def test_new_families_are_inside_as_often_as_nominal() -> None:
    """Over 300 draws of 40 families, and one more that nobody calibrated with."""
    chance, shares, before = random.Random(1), [], []
    for _ in range(300):
        cases = drawn(chance, 41)
        new = [case for case in cases if case.family == "family 40"]
        fitted = calibrating.factors(case for case in cases if case not in new)
        shares.append(sum(case.is_inside(fitted) for case in new) / len(new))
        before.append(sum(case.is_inside(Factors()) for case in new) / len(new))
    assert sum(before) / len(before) < 0.5
    assert 0.78 <= sum(shares) / len(shares) <= 0.88


def test_coverage_is_that_of_families_left_out() -> None:
    """Near the nominal share, however many cases a family has."""
    cases = drawn(random.Random(2), 60)
    assert 0.75 <= calibrating.coverage(cases) <= 0.9
    alone = [Case("big", "samples", 1.9, 2, 2.1, 9.0)] * 500
    assert calibrating.factors(cases + alone).high <= 1.3 * calibrating.factors(cases).high


def test_few_families_give_no_guarantee() -> None:
    """With eight of them the ninth could be beyond all; with nine it is one in ten."""
    cases = [Case(f"family {n}", "samples", 1.5, 2, 2.5, 2 + n / 10) for n in range(9)]
    assert calibrating.factors(cases[:8]).high == math.inf
    fitted = calibrating.factors(cases)
    assert math.isfinite(fitted.high)
    assert fitted.high == max(case.score(True) for case in cases)


def test_scores_are_in_widths_of_a_side() -> None:
    """At an end it is one; a side without width is taken for a fiftieth."""
    case = Case("f", "samples", 1.2, 1.5, 3.0, 3.0)
    assert case.score(True) == pytest.approx(1)
    assert Case("f", "samples", 1.2, 1.5, 3.0, 1.2).score(False) == pytest.approx(1)
    narrow = Case("f", "samples", 1.5, 1.5, 1.5, 1.5 * math.exp(0.04))
    assert narrow.score(True) == pytest.approx(2)


def test_records_of_stretched_intervals_do_not_tell() -> None:
    """A roof may have bounded them, so that a factor cannot be undone."""
    with pytest.raises(ValueError, match="--own"):
        calibrating.cases_of({"rows": [], "factors": {"samples": [1.0, 2.0]}})
    assert calibrating.cases_of({"rows": [], "factors": {"samples": [1.0, 1.0]}}) == []
    assert calibrating.cases_of({"rows": [], "factors": {"samples": [1.0, 2.0]}}, True) == []
    with pytest.raises(ValueError, match="later analyzer"):
        calibrating.cases_of({"rows": [], "read_again": True}, True)


def test_records_give_the_first_right_finding_with_a_gain() -> None:
    """Defects that cost nothing, decoys, and findings without a gain are no cases."""
    gain = [1.5, 2.0, 2.5]

    def row(kind: str = "defect", low: float = 1.9, said: Any = gain, rule: str = "r") -> Any:
        finding = {"rule": rule, "severity": "suggestion", "gain": said, "counts": True,
                   "evidence": "activities"}  # fmt: skip
        return {"case": "gemm/r/1", "kind": kind, "rules": ["r"], "findings": [finding],
                "time": {"ratio": 2.2, "low": low}}  # fmt: skip

    (wide,) = calibrating.cases_of({"rows": [row()], "factors": {"activities": [0.5, 2.0]}}, True)
    assert (wide.low, wide.high) == pytest.approx((2.0 * 0.75**2, 2.0 * 1.25**0.5))
    rows = [row(), row("decoy"), row(low=1.01), row(said=None), row(rule="other")]
    assert calibrating.cases_of({"rows": rows}) == [
        Case("gemm", "activities", 1.5, 2.0, 2.5, 2.2)
    ]  # fmt: skip
