"""Warps that only load for others."""

from __future__ import annotations

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import Program
from tileprof.analyzer.kernel.tile_waits import loading_apart
from tileprof.analyzer.machine.loops import loops_with

LOADED = [
    ("HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24", {"selected": 1000}, 1, 3),
    ("@P0 BRA 0x0", {"selected": 100}, 1, 3),
    ("UTMALDG.2D [UR8], [UR4]", {"selected": 10}, 1, 4),
    ("@!P1 BRA 0x90", {"long_scoreboard": 200}, 2, 5),
    ("UTMALDG.2D [UR8], [UR4]", {"selected": 20}, 2, 5),
    ("@P2 BRA 0x30", {"selected": 30}, 2, 5),
    ("@P3 BRA 0x20", {"selected": 40}, 1, 4),
    ("EXIT", {"selected": 5}, 0, 9),
    ("NOP", {}, 0, 9),
    ("SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R6", {"selected": 3}, 3, 5),
    ("@!P1 BRA 0x90", {"long_scoreboard": 400}, 3, 5),
    ("BRA 0x40", {"selected": 4}, 2, 5),
]
"""A loop of products; a loop over tiles, with one of their turns in it that asks for a free slot
elsewhere."""


def test_warps_that_load_are_counted_once() -> None:
    """Those of the loop over tiles, of the one in it and of what asks for it, and no other."""
    code = Program(program(Made(code=LOADED))).kernels[0].sampled
    assert code is not None
    (products,) = loops_with(code, ("HGMMA",))
    assert loading_apart(code, products) == 10 + 200 + 20 + 30 + 40 + 3 + 400
    (loads,) = (each for each in loops_with(code, ("UTMALDG",)) if len(each) == 3)
    assert loading_apart(code, loads) == 0
