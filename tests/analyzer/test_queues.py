"""What waits behind accesses that take many passes."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.queues import behind

CODE = [
    ("S2R R0, SR_TID.X", {"selected": 100, "mio_throttle": 1000}, 0, 4),
    ("LDG.E.128 R4, desc[UR6][R4.64]", {"selected": 100, "lg_throttle": 600}, 0, 5),
    ("FADD R7, R0, R4", {"short_scoreboard": 500, "long_scoreboard": 900}, 0, 6),
    ("RED.E.ADD.F32 desc[UR6][R2.64], R7", {"selected": 100, "drain": 50}, 0, 7),
    ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", {"mio_throttle": 800}, 0, 8),
]


def test_a_part_of_all_that_stands_in_the_queue() -> None:
    """One pass of S2R, four of 512 bytes, four sectors of an atomic: of each of 2,100 samples 4 in
    9 are due to the atomic. Who waits for memory, or for descriptors, does not stand there."""
    (case,) = Program(program(Made(code=CODE, blames=[(2, "short_scoreboard", 0)]))).kernels
    code = case.code
    assert code is not None
    taken = behind(code, {3: 4.0})
    assert taken.sum() == pytest.approx(4 / 9 * (1000 + 600 + 500))
    scattered = behind(code, {3: 32.0}, {3: 32.0})
    assert scattered.sum() == pytest.approx(32 / 37 * (1000 + 600 + 500))


def test_an_empty_queue() -> None:
    """Nothing was seen to issue."""
    code = [(text, {"wait": 9}, 0, line) for text, _, _, line in CODE]
    (case,) = Program(program(Made(code=code))).kernels
    assert case.code is not None
    assert not behind(case.code, {3: 4.0}).any()
