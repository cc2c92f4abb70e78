"""Blocks that wait for locks in global memory."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, found, only, program

RULE = "barrier-imbalance"
LOCKED = [
    ("LDG.E R2, [R8]", {"selected": 100}, 0, 3),
    ("HFMA2.MMA R23, -RZ, RZ, 0, 5.9604644775390625e-08", {"selected": 100}, 1, 4),
    ("ATOMG.E.CAS.STRONG.GPU PT, R22, [R26], R22, R23", {"selected": 1000}, 1, 4),
    ("@P0 STS [UR4], R22", {"long_scoreboard": 3000}, 1, 4),
    ("BAR.SYNC.DEFER_BLOCKING 0x0", {"selected": 100}, 1, 4),
    ("LDS R16, [UR4]", {"barrier": 5800}, 1, 4),
    ("@!P1 BRA 0x10", {"selected": 0}, 1, 4),
    ("STG.E [R8], R2", {"selected": 400}, 0, 5),
    ("EXIT", {}, 0, 6),
]


def test_a_loop_that_asks_for_a_lock() -> None:
    """10,000 of 10,500 samples are in it; what is left takes 1.7 times as long with more at once,
    and 6 times as long at most."""
    finding = only(program(Made(code=LOCKED)), RULE)
    assert finding.title == "blocks wait for a lock that others hold"
    assert finding.place.location is not None
    assert finding.place.location.line == 4
    gain, part = finding.kernel_gain, 10_000 / 10_500
    assert gain is not None
    assert gain.mid == pytest.approx(1 / ((1 - part) * (1 + 0.7 * part)), rel=1e-3)
    assert gain.low <= 1 / ((1 - part) * (1 + 5 * part)) + 1e-9
    assert gain.high >= 1 / (1 - part) - 1e-9


@pytest.mark.parametrize("work", ["FADD R23, R22, R2", "LDG.E R3, [R8+0x4]", "PRMT R2, R3, R4, R5"])
def test_a_loop_that_computes_what_it_swaps(work: str) -> None:
    """Atomics that the device does not have are made of swaps: no lock."""
    adding = [*LOCKED[:2], (work, *LOCKED[1][1:]), *LOCKED[2:]]
    titles = [each.title for each in found(program(Made(code=adding)), RULE)]
    assert "blocks wait for a lock that others hold" not in titles
