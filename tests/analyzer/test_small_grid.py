"""Launches of fewer blocks than multiprocessors."""

from __future__ import annotations

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made, found, only, program, stored

RULE = "small-grid"
LOOPED = [
    ("MOV R0, R1", {"wait": 2000}, 0, 3),
    ("FFMA R0, R0, R1, R2", {"wait": 8000}, 1, 5),
]


def test_half_of_the_multiprocessors_have_no_block() -> None:
    """At most twice as fast; likely four fifths of the half of what is in loops."""
    finding = only(on_h200(Made(attributes=launch(66), code=LOOPED)), RULE)
    assert finding.severity == "suggestion"
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(2)
    assert finding.kernel_gain.mid == pytest.approx(1 / (1 - 0.8 * 0.8 * 0.5))
    assert "66 of 132" in finding.static[0].text


def test_a_multiprocessor_each_is_enough() -> None:
    """Nor do launches of many blocks, of which each could hold more."""
    assert not found(on_h200(Made(attributes=launch(132, held=8))), RULE)
    assert not found(stored("h200-stalls"), RULE)
    assert not found(stored("h200-gemm"), RULE)


def test_cycles_without_work_are_the_most() -> None:
    """Another kernel's blocks may have been there: a fifth of all cycles was without work."""
    counters = {"sm_active_cycles": 80.0, "sm_cycles": 100.0}
    finding = only(on_h200(Made(attributes=launch(66), metrics=counters)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(1.25)
    assert finding.confidence == "medium"


def test_no_launch_is_shorter_than_an_empty_one() -> None:
    """Of 5 µs only 3 can go, or 4 by what was measured; 3 µs are left as they are."""
    few = launch(8)
    finding = only(on_h200(Made(attributes=few, time=5e3)), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(2.5)
    assert only(on_h200(Made(attributes=few, time=3e3)), RULE).severity == "ignore"
    finding = only(on_h200(Made(attributes=few, time=5e3), peaks={"launch_gap": 1e3}), RULE)
    assert finding.kernel_gain is not None
    assert finding.kernel_gain.high == pytest.approx(5)


def test_without_a_time_it_is_a_warning() -> None:
    """And without a device, nothing is known."""
    finding = only(on_h200(Made(attributes=launch(8), time=0)), RULE)
    assert (finding.severity, finding.kernel_gain) == ("warning", None)
    assert not found(program(Made(attributes=launch(8))), RULE)
