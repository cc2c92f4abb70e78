"""Intervals of rules as they are: how far calibration stretches them is tested by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.analyzer.made import report_of
from tileprof.analyzer import calibrated

_FACTORS = calibrated.FACTORS
"""The factors that reports of users have."""


@pytest.fixture
def calibrated_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stretch intervals in this test as in a user's report."""
    monkeypatch.setattr(calibrated, "FACTORS", _FACTORS)


@pytest.fixture(scope="package", autouse=True)
def _own_intervals() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrated, "FACTORS", {})
        report_of.cache_clear()
        yield
    report_of.cache_clear()
