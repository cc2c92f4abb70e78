"""Requests and bytes of global memory, by addresses."""

from __future__ import annotations

import pytest

from tests.analyzer.made import Made, program
from tileprof.analyzer.cases import KernelCase, Program
from tileprof.analyzer.kernel.global_memory import worked_out

BLOCK = {"block": "128×1×1", "grid": "1000×2×1"}


def case_of(*texts: str, loops: int = 0, launches: int = 3, **facts: str) -> KernelCase:
    """A kernel of these instructions."""
    begin = ("S2R R0, SR_TID.X", "LDC.64 R2, c[0x0][0x210]")
    code = [(text, {"selected": 9}, loops, 5) for text in (*begin, *texts)]
    made = Made(code=code, attributes=BLOCK | facts, launches=launches)
    (case,) = Program(program(made, peaks={"hbm_read": 4e10, "hbm_copy": 3e10})).kernels
    return case


@pytest.mark.parametrize(
    ("step", "opcode", "sectors", "needed", "widened"),
    [
        ("0x4", "LDG.E", 4, 4, 1), ("0x10", "LDG.E", 16, 4, 1), ("0x80", "LDG.E", 32, 4, 2),
        ("0x10", "STG.E.128", 16, 16, 1), ("0x2", "LDG.E.U16", 2, 2, 1), ("0x0", "LDG.E", 1, 1, 1),
    ],
)  # fmt: skip
def test_sectors_of_a_request(
    step: str, opcode: str, sectors: int, needed: int, widened: float
) -> None:  # fmt: skip
    """By how far lanes are apart; as they would be if each moved its 16 bytes."""
    value = "R6, desc[UR4][R4.64]" if opcode.startswith("L") else "desc[UR4][R4.64], R8"
    case = case_of(f"IMAD.WIDE R4, R0, {step}, R2", f"{opcode} {value}")
    (each,) = worked_out(case).values()
    assert (each.sectors, each.needed, each.widened) == (sectors, needed, widened)
    assert each.follows == (step != "0x0")


def test_a_copy_that_transposes() -> None:
    """Its lanes are side by side in global memory, and apart in shared memory."""
    begin = ("IMAD.WIDE R4, R0, 0x4, R2", "IMAD R1, R0, 0x80, RZ")
    (turned,) = worked_out(case_of(*begin, "LDGSTS.E desc[UR4][R4.64], P1, [R1]")).values()
    assert not turned.follows


def test_without_extents_of_blocks_nothing_is_worked_out() -> None:
    """Nor without addresses."""
    load = "LDG.E R6, desc[UR4][R4.64]"
    assert not worked_out(case_of("IMAD.WIDE R4, R0, 0x4, R2", load, block="?"))
    assert not worked_out(case_of(load))
