"""What products take of their roof, by the multiprocessors at work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.analyzer.launched import launch, on_h200
from tests.analyzer.made import Made
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.pace import Pace, at_roof

IR = """kernel @gemm(%A: global<512, 512, bfloat16>) {
    %A_shared = alloc shared {shape = [64, 64]} : shared<64, 64, bfloat16>
    gemm %A_shared, %B_shared, %C_local {transpose_b = true}
"""


@pytest.mark.parametrize(
    ("blocks", "clock", "rate"),
    [
        (132, 1650, 1.0),
        (99, 1320, 0.75 ** (2 / 3)),
        (66, 1650, 0.5 * 1980 / 1650),
        (99, 1980, 0.75),
    ],
)
def test_few_multiprocessors_have_the_power_of_all(blocks: int, clock: float, rate: float) -> None:
    """Products take half of the time where the roof was measured, at that clock. It goes up where
    fewer multiprocessors draw power, to 1,980 MHz at most."""
    held = on_h200(
        Made(attributes=launch(blocks), ir=IR, metrics={"flops": 5e11}), {"tensor_bfloat16": 1e15}
    )
    (peak,) = held.tables.device_peaks
    tables = replace(held.tables, device_peaks=(replace(peak, clock_mhz=clock),))
    (case,) = Program(replace(held, tables=tables)).kernels
    assert at_roof(case, reached=1.0) == pytest.approx(min(1.0, 0.5 / rate))


def test_work_that_is_not_known() -> None:
    """No flops, or no roof."""
    for metrics, peaks in (({}, {"tensor_bfloat16": 1e15}), ({"flops": 5e11}, {})):
        held = on_h200(Made(attributes=launch(132), ir=IR, metrics=metrics), peaks)
        (case,) = Program(held).kernels
        assert at_roof(case) == 0


def test_tiles_that_are_asked_for_more_turns_ahead() -> None:
    """1,450 cycles in turns of 1,000; nothing is known of a loop without turns."""
    assert Pace(1000, 0.5, 0.5).late(2) == pytest.approx(0.725)
    assert Pace(1000, 0.5, 0.5).late(0) == Pace(0, 0.5, 0.5).late(2) == 0
