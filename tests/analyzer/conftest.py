"""Intervals of rules as they are: how far calibration stretches them is tested by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tileprof.analyzer import calibrated


@pytest.fixture(scope="session", autouse=True)
def _own_intervals() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibrated, "FACTORS", {})
        yield
