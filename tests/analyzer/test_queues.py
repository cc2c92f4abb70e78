"""What waits behind accesses that take many passes."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.queues import behind, of_ways

CODE = [
    ("S2R R0, SR_TID.X", {"selected": 100, "mio_throttle": 1000}, 0, 4),
    ("LDG.E.128 R4, desc[UR6][R4.64]", {"selected": 100, "lg_throttle": 600}, 0, 5),
    ("FADD R7, R0, R4", {"short_scoreboard": 500, "long_scoreboard": 900}, 0, 6),
    ("RED.E.ADD.F32 desc[UR6][R2.64], R7", {"selected": 100, "drain": 50}, 0, 7),
    ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24", {"mio_throttle": 800}, 0, 8),
]


def test_a_part_of_all_that_stands_in_the_queue() -> None:
    """A pass of S2R, five of 512 bytes, five of an atomic: of 2,100 samples 5 in 11 are due to the
    atomic. Who waits for memory, or for descriptors, does not stand there."""
    (case,) = Program(program(Made(code=CODE, blames=[(2, "short_scoreboard", 0)]))).kernels
    code = case.code
    assert code is not None
    taken = behind(code, {3: 5.0})
    assert taken.sum() == pytest.approx(5 / 11 * (1000 + 600 + 500))
    scattered = behind(code, *of_ways(code, {1: 8.0}))
    assert scattered.sum() == pytest.approx(28 / (1 + 33 + 5) * (1000 + 600 + 500))


def test_an_empty_queue() -> None:
    """Nothing was seen to issue."""
    code = [(text, {"wait": 9}, 0, line) for text, _, _, line in CODE]
    (case,) = Program(program(Made(code=code))).kernels
    assert case.code is not None
    assert not behind(case.code, {3: 5.0}).any()
