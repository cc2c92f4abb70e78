"""Blocks side by side on a multiprocessor: a closed network of queues."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.side_by_side import demands, faster, throughput


def test_two_blocks_at_one_station() -> None:
    """Half of the time at memory: the second finds the first there half of the time, so it stays
    for 0.5 × 1.5; a third finds 2 / 1.25 × 0.75."""
    assert throughput([0.5], 0.5, 1) == pytest.approx(1)
    assert throughput([0.5], 0.5, 2) == pytest.approx(2 / (0.5 + 0.75))
    there = 2 / 1.25 * 0.75
    assert throughput([0.5], 0.5, 3) == pytest.approx(3 / (0.5 + 0.5 * (1 + there)))


def test_pure_latency_and_one_busy_station() -> None:
    """Blocks that only wait do as many times as much as there are; one that is never idle gains
    nothing by company."""
    assert faster([], 1, 4) == pytest.approx(4)
    assert faster([1.0], 1, 4) == pytest.approx(1)
    assert 1.95 < faster([0.5], 1, 8) < 2


def test_blocks_that_are_there_are_as_fast_as_they_were() -> None:
    """Four of them leave memory idle for a fifth: their latency follows, and a fifth one's gain is
    less than that of a second beside one alone."""
    more = faster([0.8], 4, 5)
    assert 1 < more < faster([0.8], 1, 2) < 1.25
    assert faster([0.8], 4, 4.5) == pytest.approx((1 + more) / 2)


def test_warps_of_a_block_are_at_several_stations_at_once() -> None:
    """0.7 and 0.6 in one time overlap already: the bound is that of the busier."""
    assert 1.2 < faster([0.7, 0.6], 1, 8) < 1 / 0.7
    assert faster([0.7, 0.6], 1, 1) == pytest.approx(1)


def test_what_stations_are_at_work() -> None:
    """1.92 of 4 TB/s, of which reads reach 0.96; two passes of a word a lane for each of 1,000 of
    2,000 instructions, one multiprocessor's for four schedulers; who issues in 0.1 of cycles."""
    code = [
        ("LDS R4, [R5]", {"selected": 1000}, 1, 5),
        ("FADD R7, R4, R7",
         {"selected": 1000, "short_scoreboard": 18000, "short_scoreboard_not_issued": 18000}, 1, 6),
    ]  # fmt: skip
    made = Made(code=code, metrics={"bytes": 1.92e9})
    peaks = dict.fromkeys(("hbm_read", "hbm_copy", "hbm_write"), 4e12)
    (case,) = Program(program(made, peaks=peaks)).kernels
    assert case.code is not None
    assert demands(case, case.code) == pytest.approx([0.5, 4 * 0.1 * 2 / 2, 0.1])


def test_a_full_queue_is_a_station() -> None:
    """Where nobody says how many bytes move."""
    code = [("LDG.E R4, [R2.64]", {"selected": 100, "lg_throttle": 300}, 1, 5)]
    (case,) = Program(program(Made(code=code))).kernels
    assert case.code is not None
    assert demands(case, case.code)[0] == pytest.approx(0.75)
