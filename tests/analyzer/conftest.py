"""Intervals of rules as they are: how far calibration stretches them is tested by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.analyzer.made import report_of
from tileprof.analyzer import calibrated


@pytest.fixture(scope="package", autouse=True)
def _own_intervals() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrated, "FACTORS", {})
        report_of.cache_clear()
        yield
    report_of.cache_clear()
