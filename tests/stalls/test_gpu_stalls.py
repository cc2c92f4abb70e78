"""Kernels with known stalls on a GPU: each waits where it should, for the reason that is known."""

from __future__ import annotations

from functools import cache

import pytest

from tests.stalls.running import Seen, seen
from tests.stalls.test_stalls_explained import CAUSES, MEASURED, OF_THEMSELVES

pytestmark = [pytest.mark.gpu, pytest.mark.alone]

SHARES = 0.05
"""By which a reason's share of a kernel may differ from what was measured before."""


@cache
def all_seen() -> dict[str, Seen]:
    """Every kernel, sampled once for all tests."""
    return seen(pc_sampling=MEASURED["period"])


@pytest.mark.parametrize("name", [*CAUSES, *OF_THEMSELVES])
def test_the_hottest_instruction(name: str) -> None:
    """Its first reason, and what is told of its cause."""
    found = all_seen()[name]
    reason, cause = CAUSES.get(name, (OF_THEMSELVES.get(name), ""))
    print(found)
    assert found.reasons.most_common(1)[0][0] == reason
    assert any(cause in told for told in found.waits_for) if cause else not found.waits_for


@pytest.mark.parametrize("name", MEASURED["kernels"])
def test_reasons_are_as_before(name: str) -> None:
    """Of the whole kernel; each sample has a line."""
    found, before = all_seen()[name], MEASURED["kernels"][name]
    print(found)
    assert found.on_lines == found.samples > 1000
    for reason, count in before["stalls"].items():
        share = count / before["samples"]
        assert found.stalls[reason] / found.samples == pytest.approx(share, abs=SHARES)
