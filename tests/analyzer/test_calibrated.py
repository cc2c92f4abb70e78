"""Ends of intervals, stretched about their middle."""

from __future__ import annotations

import math

import pytest

from tileprof.analyzer import calibrated
from tileprof.analyzer.findings import Evidence, Gain, Tier

_HELD = Gain(1.1, 1.5, 2.0)


def _with(factors: dict[Tier, tuple[float, float]], gain: Gain, *kinds: Tier) -> Gain:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrated, "FACTORS", factors)
        return calibrated.stretched(gain, [Evidence(kind, "") for kind in kinds])


def test_each_end_by_its_factor() -> None:
    """Factors stretch logarithms of gains, and no end falls below 1."""
    found = _with({"samples": (0.5, 2.0)}, _HELD, "static", "samples")
    assert found.mid == _HELD.mid
    assert math.log(1.5 / found.low) == pytest.approx(math.log(1.5 / 1.1) / 2)
    assert math.log(found.high / 1.5) == pytest.approx(math.log(2.0 / 1.5) * 2)
    assert _with({"samples": (3.0, 1.0)}, _HELD, "samples").low == 1


def test_the_sharpest_evidence_counts() -> None:
    """A kind without factors leaves an interval as it is, and so does a factor of one."""
    factors: dict[Tier, tuple[float, float]] = {"samples": (2.0, 2.0)}
    assert _with(factors, _HELD, "samples", "counters") == _HELD
    assert _with(factors, _HELD, "static") == _HELD
    same = _with({"samples": (1.0, 1.0)}, _HELD, "samples")
    assert (same.low, same.high) == pytest.approx((_HELD.low, _HELD.high))


def test_an_interval_without_width() -> None:
    """Two measurements of one kernel are a little apart."""
    found = _with({"samples": (1.5, 1.5)}, Gain(1.2, 1.2, 1.2), "samples")
    assert found.low < 1.2 < found.high
